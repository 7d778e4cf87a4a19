"""From the marks of an examination to its figures: per task and over tasks, with intervals. Pure.

What is not known (an interval over a single question) is None in JSON and a dash in the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarmnode.evaluation import Marks
from swarmnode.examining import ExamResult
from swarmnode.pass_rates import Interval, Values, difference, interval


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure: at the start, now, and how much higher it is now, questions paired."""

    start: Interval
    now: Interval | None
    change: Interval | None

    def as_json(self) -> dict[str, Any]:
        """With a mean and an interval each."""
        return {
            name: _values(each)
            for name, each in (("start", self.start), ("now", self.now), ("change", self.change))
            if each is not None
        }


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures by name (pass@k for several k, greedy), over tasks and of each task."""

    mean: Mapping[str, Measured]
    """Tasks with equal weights."""
    tasks: Mapping[str, Mapping[str, Measured]]
    levels: Mapping[str, str]

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "mean": {name: each.as_json() for name, each in self.mean.items()},
            "tasks": {
                task: {
                    "level": self.levels[task],
                    **{name: each.as_json() for name, each in figures.items()},
                }
                for task, figures in self.tasks.items()
            },
        }


def figures_of(result: ExamResult, pairs: Sequence[tuple[str, str]], samples: int) -> Figures:
    """The figures of an examination with so many samples a question."""
    start = _read(result.start, samples)
    now = _read(result.now, samples) if result.now else dict.fromkeys(start)
    return Figures(
        mean={name: _measured(values, now[name]) for name, values in start.items()},
        tasks={
            task: {
                name: _measured(_only(values, task), _only(now[name], task))
                for name, values in start.items()
            }
            for task, _ in pairs
        },
        levels=dict(pairs),
    )


def _read(marks: Marks, samples: int) -> dict[str, Values | None]:
    """Every figure's value of each question: pass@k for the powers of two up to K, and for K."""
    powers = [2**power for power in range(samples.bit_length()) if 2**power < samples]
    passes: dict[str, Values | None] = {f"pass@{k}": marks.pass_at(k) for k in (*powers, samples)}
    return {**passes, "greedy": marks.greedy_values}


def _only(values: Values | None, task: str) -> Values | None:
    return None if values is None else {task: values[task]}


def _measured(start: Values | None, now: Values | None) -> Measured:
    assert start is not None
    if now is None:
        return Measured(interval(start), None, None)
    return Measured(interval(start), interval(now), difference(start, now))


def _values(found: Interval) -> dict[str, float | None]:
    return {
        name: None if math.isnan(value) else round(value, 6)
        for name, value in (("mean", found.mean), ("low", found.low), ("high", found.high))
    }
