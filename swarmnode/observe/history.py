"""How the rounds went, in a form that is small enough to be kept at hand and drawn.

A point is made of a round's report as plain values (swarmnode.reports), whether it has just ended
or comes out of the store, so that a restart changes nothing. Invariants: bounded, whatever the
number of rounds, by thinning the older half; points are in the order of their rounds, each once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean
from typing import Any

MOST_POINTS = 800
WINDOW_ROUNDS = 20
"""Rounds over which local and training-set reward are averaged."""
LIKELY = 1.96
"""Standard errors on either side of a mean, for 95 %."""
_WEIGHT = "scheduler/weight/"


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure, and from where to where it spreads."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Point:
    """One round."""

    round: int
    ended: float
    """Seconds since 1970."""
    local: Spread | None
    """Mean over the last WINDOW_ROUNDS, one standard deviation of these rounds to each side; None
    before the first."""
    training_set: Spread | None
    """Likewise."""
    held_out: Spread | None
    """Of this round's evaluation with its 95 % interval, which follows from the number of
    questions; None where there was none."""
    by_task: Mapping[str, float]
    """reward/local."""
    held_out_by_task: Mapping[str, float]
    weights: Mapping[str, float]
    """The scheduler's, by task; empty of one that does not learn."""
    sources: Mapping[str, int]
    """Groups of peers trained on, by the first eight bytes of their key, in hex."""


@dataclass(slots=True)
class History:
    """The rounds so far."""

    points: list[Point] = field(default_factory=list)
    added: int = 0
    """Points ever added: who knows this number knows what is new."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """The newest round's, as plain values."""
    evaluation: Mapping[str, Any] = field(default_factory=dict)
    """The newest report that holds an evaluation."""
    _local: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW_ROUNDS))
    _training: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW_ROUNDS))

    def add(self, report: Mapping[str, Any], ended: float) -> None:
        """Take in a round's report; one that was done again replaces what came of it first."""
        number = int(report["round"])
        while self.points and self.points[-1].round >= number:
            self.points.pop()
        self.points.append(self._point(report, number, ended))
        self.added += 1
        self.report = report
        if "held_out" in report:
            self.evaluation = report
        if len(self.points) > MOST_POINTS:
            self._thin()

    def since(self, added: int) -> Sequence[Point]:
        """What was added after that many; at most what is kept."""
        return self.points[max(0, len(self.points) - (self.added - added)) :]

    def groups_of_peers(self, rounds: int) -> Mapping[str, int]:
        """Groups trained on in the last so many rounds at hand, by publisher as in `sources`."""
        total: dict[str, int] = {}
        for point in islice(reversed(self.points), rounds):
            for publisher, count in point.sources.items():
                total[publisher] = total.get(publisher, 0) + count
        return total

    def _point(self, report: Mapping[str, Any], number: int, ended: float) -> Point:
        metrics = report.get("metrics", {})
        by_task = report.get("reward/local", {})
        held_out = {task: _share(marks) for task, marks in report.get("held_out", {}).items()}
        return Point(
            round=number,
            ended=ended,
            local=_moving(self._local, by_task),
            training_set=_moving(self._training, report.get("reward/training_set", {})),
            held_out=_evaluated(report["held_out"]) if held_out else None,
            by_task=by_task,
            held_out_by_task=held_out,
            weights={
                name.removeprefix(_WEIGHT): share
                for name, share in metrics.items()
                if name.startswith(_WEIGHT)
            },
            sources=report.get("sources", {}),
        )

    def _thin(self) -> None:
        """Every other point of the older half goes, unless it holds an evaluation; of these every
        other goes only where nothing else is left to go."""
        half = len(self.points) // 2
        older, newer = self.points[:half], self.points[half:]
        kept = [one for at, one in enumerate(older) if at % 2 == 0 or one.held_out is not None]
        self.points = (older[::2] if len(kept) == len(older) else kept) + newer


def _moving(window: deque[float], by_task: Mapping[str, float]) -> Spread | None:
    if by_task:
        window.append(fmean(by_task.values()))
    if not window:
        return None
    mean = fmean(window)
    deviation = math.sqrt(fmean((value - mean) ** 2 for value in window))
    return Spread(mean, max(0.0, mean - deviation), min(1.0, mean + deviation))


def _evaluated(marks: Mapping[str, str]) -> Spread:
    """The mean over tasks with equal weights, with its interval.

    By the normal approximation; the variance is that of Agresti and Coull (The American
    Statistician 52, 1998, section 3), two successes and two failures added to each task, so that a
    policy that solves nothing is not taken for one that never will.
    """
    variance = 0.0
    for text in marks.values():
        count = len(text) + 4
        share = (text.count("1") + 2) / count
        variance += share * (1.0 - share) / count
    mean = fmean(map(_share, marks.values()))
    error = LIKELY * math.sqrt(variance) / len(marks)
    return Spread(mean, max(0.0, mean - error), min(1.0, mean + error))


def _share(marks: str) -> float:
    return marks.count("1") / max(1, len(marks))
