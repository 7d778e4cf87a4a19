"""Health warnings: what is wrong with a running node, in words, with what to do about it.

`WARNABLES` holds everything that a node can complain of: a stable code, how bad it is, when it
applies, the text made of the facts, the fix, and the causes that hide it. `warnings` is a pure
function from `Facts` to those that apply now: nothing is remembered, so a warning clears with its
cause. The module gathers nothing and shows nothing; texts may hold what peers sent and are made
safe here. In the spirit of tailscale's health warnings (reference/house-style.md, A2.6).
"""

from __future__ import annotations

from collections.abc import Sequence

from swarmnode.observe.external_warnings import EXTERNAL_WARNABLES
from swarmnode.observe.facts import Facts, HealthWarning, Severity, Warnable
from swarmnode.observe.guard_warnings import GUARD_WARNABLES
from swarmnode.observe.network_warnings import NETWORK_WARNABLES
from swarmnode.observe.node_warnings import NODE_WARNABLES
from swarmnode.observe.split_warnings import SPLIT_WARNABLES
from swarmnode.observe.words import plain

WARNABLES: tuple[Warnable, ...] = (
    *NETWORK_WARNABLES,
    *EXTERNAL_WARNABLES,
    *NODE_WARNABLES,
    *SPLIT_WARNABLES,
    *GUARD_WARNABLES,
)


def warnings(facts: Facts, warnables: Sequence[Warnable] = WARNABLES) -> list[HealthWarning]:
    """What applies now, the worst first; consequences of what applies are left out."""
    applying = {each.code for each in warnables if each.applies(facts)}
    shown = [
        each
        for each in warnables
        if each.code in applying and not applying.intersection(each.hidden_by)
    ]
    order = list(Severity)
    shown.sort(key=lambda each: order.index(each.severity), reverse=True)
    return [
        HealthWarning(each.code, each.severity, each.title, plain(each.text(facts)), each.fix)
        for each in shown
    ]


def health_table(warnables: Sequence[Warnable] = WARNABLES) -> str:
    """All warnings as a Markdown table, for the docs."""
    lines = ["| code | severity | when | what to do |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{each.code}` | {each.severity.value} | {each.when} | {each.fix} |"
        for each in warnables
    ]
    return "\n".join(lines) + "\n"
