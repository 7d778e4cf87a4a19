"""The parts of the page that show texts: answers of the last step, and the log. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swarmnode.api.moment import Moment, names_of
from swarmnode.api.parts_swarm import OUT, peer_name, treatment
from swarmnode.api.tree import Element, Tree, element, elements
from swarmnode.observe.log import readable
from swarmnode.observe.shown_groups import ShownCompletion, ShownGroup


def answers(moment: Moment) -> Element:
    """Questions of the last step with their answers, what each was worth, and whose they are."""
    if not moment.groups:
        return element("p", "No step has been taken since the start.", class_="quiet")
    names = names_of(moment.peers)
    return elements("div", (_group(each, names) for each in moment.groups), class_="groups")


def _group(group: ShownGroup, names: Mapping[str, str]) -> Element:
    right = sum(each.success for each in group.completions)
    whose = element("b", peer_name(group.publisher, names))
    return element(
        "article",
        element(
            "p",
            whose,
            f" · {group.task}, {group.level} · round {group.round} · "
            f"{right} of {len(group.completions)} right",
            element("span", _treated(group), class_="note"),
            class_="about",
        ),
        element("pre", group.question, class_="question"),
        element("p", "Reference answer: ", element("code", group.answer), class_="reference"),
        elements("ol", map(_completion, group.completions), class_="completions"),
        element("p", f"and {group.more} more", class_="note") if group.more else None,
    )


def _treated(group: ShownGroup) -> str:
    words = treatment(group.level_of_correction, group.why)
    return words if group.level_of_correction == OUT else f"trained on: {words}"


def _completion(each: ShownCompletion) -> Element:
    mark = "✓ right" if each.success else "✗ wrong"
    partly = "" if each.success or not each.score else f", score {each.score:.2f}"
    cut = ", cut off" if each.cut_off else ""
    return element(
        "li",
        element("span", f"{mark}{partly}{cut}", class_="mark " + ("yes" if each.success else "no")),
        element("span", _advantage(each.advantage), class_="advantage"),
        element("pre", each.text),
    )


def _advantage(value: float | None) -> str:
    return "not trained on" if value is None else f"advantage {value:+.2f}".replace("-", "−")


def log(moment: Moment) -> Element:
    """The newest entries of the log, the last one at the end."""
    if not moment.log:
        return element("p", "The log is empty.", class_="quiet")
    return elements(
        "ol",
        (element("li", _entry(each), class_=_level(each)) for each in moment.log),
        class_="log", tabindex=0, role="region", aria_label="Log",
    )  # fmt: skip


def _entry(entry: Mapping[str, Any]) -> Tree:
    return readable(entry)


def _level(entry: Mapping[str, Any]) -> str | None:
    level = str(entry.get("level", ""))
    return level if level in _LEVELS else None


_LEVELS: Sequence[str] = ("warning", "error", "critical")
