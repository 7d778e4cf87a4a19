"""What a tracker is given: a round as flat figures, and the settings behind them. Pure.

Names are those of docs/metrics.md, with what stands behind them where there are several, as in
guard/value/length; what is by task is there as its mean as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from statistics import fmean
from typing import Any

from swarmnode.config.settings import Settings

REWARDS = ("reward/local", "reward/training_set")
HELD_OUT = ("held_out", "held_out_greedy")
_TOLD = (
    "tasks",
    "rounds",
    "policy",
    "training",
    "rewards",
    "guard_rails",
    "scheduling",
    "selection",
    "evaluation",
)
"""Sections that say how it was trained. Addresses of the network are nobody's business."""


def tracked_values(report: Mapping[str, Any]) -> dict[str, float]:
    """The figures of a report as plain values (swarmnode.reports); what is not finite is left out.

    `dropped/REASON` counts since the round before.
    """
    return {name: value for name, value in _named(report) if math.isfinite(value)}


def _named(report: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name in REWARDS:
        yield from _by_task(name, report.get(name, {}))
    for name in HELD_OUT:
        marks: Mapping[str, str] = report.get(name, {})
        shares = {task: each.count("1") / max(1, len(each)) for task, each in marks.items()}
        yield from _by_task(name, shares)
    for name, value in report.get("metrics", {}).items():
        yield name, float(value)
    for reason, count in report.get("dropped", {}).items():
        yield f"dropped/{reason}", float(count)


def _by_task(name: str, found: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    if found:
        yield name, fmean(found.values())
    for task, value in found.items():
        yield f"{name}/{task}", float(value)


def told_settings(settings: Settings) -> dict[str, Any]:
    """How a run was trained, by dotted name; of a path on this machine its last part alone."""
    told: dict[str, Any] = {}
    for section in _TOLD:
        _flatten(getattr(settings, section).model_dump(mode="json"), section, told)
    return told


def _flatten(value: Any, name: str, into: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, each in value.items():
            _flatten(each, f"{name}.{key}", into)
    elif isinstance(value, list):
        into[name] = [_without_folders(each) for each in value]
    else:
        into[name] = _without_folders(value)


def _without_folders(value: Any) -> Any:
    local = isinstance(value, str) and value.startswith(("/", "~", "./", "../"))
    return value.rstrip("/").rpartition("/")[2] if local else value
