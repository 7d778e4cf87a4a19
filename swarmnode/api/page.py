"""The page: its parts by name, each a tree made of one moment, and the whole as HTML. Pure.

Without its script the page shows the moment at which it was asked for, and asks again by itself.
With it, dashboard.js puts every part that changes into the place of what was there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from swarmnode.api.moment import Moment
from swarmnode.api.parts_answers import answers, log
from swarmnode.api.parts_learning import picture, rewards, state, tasks, warnings
from swarmnode.api.parts_machine import guard_rails, resources, split
from swarmnode.api.parts_swarm import last_round, swarm
from swarmnode.api.tree import Element, element, elements, html

REFRESH_SECONDS = 10
"""Of a page without script."""

Part = Callable[[Moment], Element | None]
PICTURE = "picture"
"""The part that the page's script draws by itself."""
PARTS: Mapping[str, Part] = {
    "state": state,
    "warnings": warnings,
    "rewards": rewards,
    "tasks": tasks,
    "last-round": last_round,
    "swarm": swarm,
    "answers": answers,
    "guard-rails": guard_rails,
    "split": split,
    "resources": resources,
    "log": log,
}
"""What is made anew, by the `data-part` of the element that holds it."""


class _Section(NamedTuple):
    name: str
    title: str
    holds: tuple[str, ...]
    """Parts; without the first there is no section."""
    note: str = ""


_SECTIONS = (
    _Section(
        "rewards",
        "Rewards",
        ("rewards", PICTURE),
        "Success in 0 to 1, per task and then over tasks with equal weights. Held out: one "
        "evaluation, with the 95 % interval that its number of questions gives. The others: the "
        "mean of 20 rounds, with a standard deviation of these rounds to each side.",
    ),
    _Section("tasks", "Tasks", ("tasks",), "The last 20 rounds, and all rounds left to right."),
    _Section("last-round", "The last round", ("last-round",), "Where its groups came from."),
    _Section(
        "swarm",
        "Peers",
        ("swarm",),
        "A line is as thick as what of the peer was trained on in the last 200 rounds. Quality is "
        "the share of its groups that was of use; nobody is muted for that.",
    ),
    _Section(
        "answers",
        "Answers",
        ("answers",),
        "From the last step. An advantage says how much better an answer was than others to the "
        "same question: what is above 0 becomes likelier.",
    ),
    _Section(
        "guard-rails",
        "Guard-rails",
        ("guard-rails",),
        "What the node's own answers have become, against its first rounds.",
    ),
    _Section("split", "Generation and training", ("split",)),
    _Section("resources", "Resources", ("resources",), "A processor is 100 %."),
    _Section("log", "Log", ("log",)),
)


def made(moment: Moment) -> dict[str, Element | None]:
    """Every part at that moment but the picture; None for one that this node has not."""
    return {name: make(moment) for name, make in PARTS.items()}


def page_of(moment: Moment) -> str:
    """The page at that moment."""
    return whole({**made(moment), PICTURE: picture(moment)})


def whole(parts: Mapping[str, Element | None]) -> str:
    """The page."""
    shown = [section for section in _SECTIONS if parts[section.holds[0]] is not None]
    main = element(
        "main",
        _held(parts, "state"),
        _held(parts, "warnings"),
        *(_section(parts, section) for section in shown),
        id="top",
    )
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="robots", content="noindex"),
        element("title", "swarmnode"),
        element("link", rel="icon", href="icon.svg", type="image/svg+xml"),
        element("link", rel="stylesheet", href="uplot.css"),
        element("link", rel="stylesheet", href="dashboard.css"),
        element(
            "noscript",
            element("meta", http_equiv="refresh", content=str(REFRESH_SECONDS)),
        ),
        element("script", src="uplot.js", defer=True),
        element("script", src="dashboard.js", defer=True),
    )
    links = [element("li", element("a", title, href=f"#{name}")) for name, title, *_ in shown]
    header = element(
        "header",
        element("a", "To the state", href="#top", class_="skip"),
        element(
            "p",
            element("b", "swarmnode"),
            element("span", "as it was when asked for", id="live", role="status"),
        ),
        element("nav", elements("ul", links), aria_label="Parts of this page"),
    )
    page = element("html", head, element("body", header, main), lang="en")
    return f"<!doctype html>\n{html(page)}\n"


def _held(parts: Mapping[str, Element | None], name: str) -> Element:
    return element("div", parts[name], data_part=name)


def _section(parts: Mapping[str, Element | None], section: _Section) -> Element:
    return element(
        "section",
        element("h2", section.title, id=f"{section.name}-title"),
        element("p", section.note, class_="note") if section.note else None,
        *(_held(parts, each) for each in section.holds),
        id=section.name,
        aria_labelledby=f"{section.name}-title",
    )
