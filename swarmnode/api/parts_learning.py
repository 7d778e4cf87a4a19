"""The parts of the page about learning: the state in a sentence, warnings, rewards, tasks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from swarmnode.api.moment import Moment, figure
from swarmnode.api.pictures import curves, sparkline
from swarmnode.api.tree import Element, Tree, element, elements, worded
from swarmnode.observe.facts import HealthWarning, Severity
from swarmnode.observe.history import Point, Spread
from swarmnode.observe.status import StatusDocument
from swarmnode.observe.words import counted, lasting

_TONES = {Severity.ERROR: "bad", Severity.WARNING: "poor", Severity.INFO: "fine"}
_STATES = {
    "bad": ("✕", "needs you"),
    "poor": ("!", "works, with a complaint"),
    "fine": ("✓", "all is well"),
    "begin": ("…", "starting"),
    "end": ("■", "stopping"),
}
REWARDS = (
    ("held_out", "Held out", "unseen questions: the figure to judge the policy by"),
    ("local", "Local", "its own fresh answers, before any filter"),
    ("training_set", "Training set", "what rounds trained on, own and peers'; filters raise it"),
)


def state(moment: Moment) -> Element:
    """What the node is doing, in one sentence."""
    status = moment.status
    tone = tone_of(status)
    sign, word = _STATES[tone]
    return element(
        "div",
        element(
            "p",
            element("span", sign, class_="sign", aria_hidden="true"),
            element("span", word),
            class_=f"tone {tone}",
        ),
        element("h1", _sentence(status.summary)),
        elements("dl", _facts(status), class_="facts"),
    )


def tone_of(status: StatusDocument) -> str:
    """How the node does, by its phase and its worst warning."""
    if status.phase != "running":
        return "begin" if status.phase == "starting" else "end"
    return _TONES[status.warnings[0].severity] if status.warnings else "fine"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def _facts(status: StatusDocument) -> Iterator[Element]:
    for name, value in _named(status):
        yield element("div", element("dt", name), element("dd", value))


def _named(status: StatusDocument) -> Iterator[tuple[str, str]]:
    if rounds := status.round:
        took = "" if rounds.seconds is None else f", the last took {rounds.seconds:.1f} s"
        yield "Round", f"{rounds.number}{took}"
    if status.policy_version is not None:
        yield "Policy", f"{status.node.model}, version {status.policy_version}"
    if swarm := status.swarm:
        kind = ", private" if swarm.private else ""
        yield "Swarm", f"{swarm.name or swarm.id[:16]}{kind}, about {counted(swarm.size, 'node')}"
    if status.network.state != "off":
        yield "Connected", counted(status.network.peers, "peer")
    if saved := status.checkpoint:
        yield "Saved", f"{lasting(max(0.0, status.now - saved.written))} ago"
    yield "Up for", lasting(status.uptime_seconds)


def warnings(moment: Moment) -> Element:
    """What it complains of, and what to do."""
    found = moment.status.warnings
    if not found:
        return element("p", "Nothing to complain of.", class_="quiet")
    return elements("ul", map(_warning, found), class_="warnings")


def _warning(warning: HealthWarning) -> Element:
    return element(
        "li",
        element("strong", f"{warning.severity.value}: {warning.title}."),
        " ",
        worded("span", warning.text),
        " ",
        worded("span", warning.fix, class_="fix"),
        class_=_TONES[warning.severity],
    )


def rewards(moment: Moment) -> Element:
    """The three rewards as they are now."""
    points = moment.history.points
    return elements(
        "ul",
        (
            element(
                "li",
                element("span", title, class_=f"name {name}"),
                _figures(_last(points, name)),
                element("span", meaning, class_="note"),
            )
            for name, title, meaning in REWARDS
        ),
        class_="tiles",
    )


def _figures(spread: Spread | None) -> Element:
    if spread is None:
        return element("span", "–", class_="large")
    return element(
        "span",
        element("b", figure(spread.mean)),
        element("small", f" {spread.low:.2f} to {spread.high:.2f}"),
        class_="large",
    )


def _last(points: Sequence[Point], name: str) -> Spread | None:
    found = (getattr(point, name) for point in reversed(points))
    return next((spread for spread in found if spread is not None), None)


def picture(moment: Moment) -> Element:
    """The rewards over the rounds, for a page without script."""
    points = moment.history.points
    if len(points) < 2:
        return element("p", "The curves begin with the second round.", class_="quiet")
    title = f"Rewards from round {points[0].round} to round {points[-1].round}"
    return element(
        "div",
        curves(points, title),
        element(
            "p",
            element("span", f"round {points[0].round}"),
            element("span", f"round {points[-1].round}"),
            class_="ends",
        ),
    )


def tasks(moment: Moment) -> Element:
    """Every task: what it gives, what it gives on unseen questions, how often it is asked."""
    points = moment.history.points
    names = sorted({name for point in points[-50:] for name in point.by_task})
    if not names:
        return element("p", "No round has ended yet.", class_="quiet")
    held_out = next((p.held_out_by_task for p in reversed(points) if p.held_out_by_task), {})
    learns = any(point.weights for point in points[-50:])
    heads = ["Task", "Local", "Local over time", "Held out"]
    heads += ["Asked", "Asked over time"] if learns else []
    rows = [_task(points, name, held_out.get(name), learns=learns) for name in names]
    return table(heads, rows, "Rewards by task, and how often each is asked")


def _task(
    points: Sequence[Point], name: str, held_out: float | None, *, learns: bool
) -> Sequence[Tree | None]:
    local = [point.by_task[name] for point in points if name in point.by_task]
    lately = local[-20:]
    mean = sum(lately) / len(lately) if lately else None
    cells: list[Tree | None] = [
        name, figure(mean, 2), sparkline(local, 1.0, "local"), figure(held_out, 2)
    ]  # fmt: skip
    if learns:
        weights = [point.weights.get(name, 0.0) for point in points if point.weights]
        top = max((max(point.weights.values()) for point in points if point.weights), default=1.0)
        cells += [f"{weights[-1]:.0%}", sparkline(weights, top, "weight")]
    return cells


def table(heads: Sequence[str], rows: Sequence[Sequence[Tree | None]], caption: str) -> Element:
    """A table that scrolls by itself where it is too wide, also by keyboard."""
    return element(
        "div",
        element(
            "table",
            element("caption", caption, class_="unseen"),
            element("thead", elements("tr", (element("th", head, scope="col") for head in heads))),
            elements("tbody", (_row(row) for row in rows)),
        ),
        class_="wide", tabindex=0, role="region", aria_label=caption,
    )  # fmt: skip


def _row(cells: Sequence[Tree | None]) -> Element:
    first, *others = cells
    return element(
        "tr", element("th", first, scope="row"), *(element("td", cell) for cell in others)
    )
