"""When held-out success falls while peers' groups are trained on: own groups alone, and back.

Whoever poisons a policy shows in what it can no longer do. Each evaluation asks the same questions,
so that two moments compare pair by pair (`fall`); what follows from it is a small machine over
successive evaluations (`Fallback`). Pure: knows rounds, peers and training by what it is told.
Source: security.md section 1, quality dilution; the test and its figures are ours
(docs/how-it-works.md).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarmnode.types import Evaluation

WINDOW = 2
"""Evaluations that one side of the comparison is the mean of: it halves what chance does."""
REGAINED = 0.5
"""Share of what was lost that has to be back for peers' groups to come back early."""
NOTABLE = 1.0
"""Standard errors by which an evaluation has to be better to be what a fall is measured from, and
worse to end a trial. The best of many would be the luckiest: with 360 questions and no change at
all, 1 evaluation in 80 would be a fall from it, where it is 1 in 270 so."""
MOST_DEVIATIONS = 1000.0
"""Of a difference that is the same for every question."""
LONGEST = 8
"""By how much the pause may grow."""

Marks = tuple[float, ...]
"""Success of each question in [0, 1], in a fixed order: mean of its sampled and greedy answer."""


@dataclass(frozen=True, slots=True)
class Fall:
    """How much worse a policy became."""

    drop: float
    """Of the mean over questions; negative where it became better."""
    deviations: float
    """The same in standard errors of the paired difference, as negative; 0 if nothing differs."""


def fall(before: Sequence[Marks], now: Sequence[Marks]) -> Fall:
    """From the mean of some evaluations to that of others, of the same questions, paired.

    Raises ValueError where one side is empty, or the questions are not as many.
    """
    pairs = list(zip(_means(before), _means(now), strict=True))
    differences = [then - later for then, later in pairs]
    drop = statistics.fmean(differences)
    if len(differences) < 2 or not any(differences):
        return Fall(drop, 0.0)
    error = statistics.stdev(differences) / len(differences) ** 0.5
    return Fall(drop, drop / error if error else math.copysign(MOST_DEVIATIONS, drop))


def _means(evaluations: Sequence[Marks]) -> Marks:
    """Of each question, over evaluations."""
    if not evaluations:
        raise ValueError("there is nothing to compare")
    return tuple(map(statistics.fmean, zip(*evaluations, strict=True)))


def marks_of(evaluation: Evaluation) -> Marks:
    """An evaluation's marks, tasks by name."""
    return tuple(
        (int(sampled) + int(greedy)) / 2
        for task in sorted(evaluation.sampled)
        for sampled, greedy in zip(evaluation.sampled[task], evaluation.greedy[task], strict=True)
    )


class Fallback:
    """Whether peers' groups may be trained on, from one evaluation to the next.

    A fall begins a pause. The first ends when what was lost is mostly regained, and else after
    some evaluations; each further one is twice as long and lasts to its end, since it was peers'
    groups that brought the fall back. After a pause that regained too little they are on trial
    until the loss is made good: a smaller fall from what they came back to is enough for the next.
    """

    def __init__(self, *, enabled: bool, drop: float, deviations: float, evaluations: int) -> None:
        self._enabled = enabled
        self._drop = drop
        self._deviations = deviations
        self._evaluations = evaluations
        self._last: tuple[Marks, ...] = ()
        self._base: tuple[Marks, ...] = ()
        """What a fall is a fall from: the last evaluations that were better than those before."""
        self._aim: tuple[Marks, ...] = ()
        """On trial: what there was before the fall."""
        self._used = False
        """Whether peers' groups were trained on since the base."""
        self._left = 0
        """Evaluations until the pause ends; 0 without one."""
        self._pause = evaluations
        """How long the next one will be."""
        self._calm = 0
        """Evaluations in a row without a fall."""
        self._falls = 0
        self._lost = 0.0
        """The drop that began the pause."""
        self._fall = Fall(0.0, 0.0)

    @property
    def active(self) -> bool:
        """Whether own groups alone are to be trained on."""
        return self._enabled and self._left > 0

    def heard(self, evaluation: Evaluation, *, external: bool) -> Mapping[str, float]:
        """Take in an evaluation; `external` is whether peers' groups were trained on since the
        one before. Returns metrics, for the names in docs/metrics.md."""
        marks = marks_of(evaluation)
        if self._last and len(self._last[0]) != len(marks):
            self._last = self._base = self._aim = ()  # Other questions: nothing compares.
        self._last = (*self._last, marks)[-WINDOW:]
        self._base = self._base or self._last
        self._used |= external
        self._fall = fall(self._base, self._last)
        if self._left:
            self._paused()
        elif self._used and self._blamed:
            self._begin_pause()
        else:
            self._go_on()
        return self.figures()

    def figures(self) -> dict[str, float]:
        """How it stands, for the names in docs/metrics.md."""
        return {
            "fallback/active": float(self.active),
            "fallback/falls": float(self._falls),
            "fallback/evaluations_left": float(self._left),
            "fallback/drop": self._fall.drop,
            "fallback/deviations": self._fall.deviations,
        }

    def to_values(self) -> dict[str, Any]:
        """What is kept with a checkpoint: JSON values."""
        return {
            "last": [list(marks) for marks in self._last],
            "base": [list(marks) for marks in self._base],
            "aim": [list(marks) for marks in self._aim],
            "used": self._used,
            "left": self._left,
            "pause": self._pause,
            "calm": self._calm,
            "falls": self._falls,
            "lost": self._lost,
        }

    def restore(self, values: Any) -> None:
        """Go on with what `to_values` gave; anything else is passed over."""
        try:
            last, base, aim = (
                tuple(tuple(map(float, marks)) for marks in values[name])
                for name in ("last", "base", "aim")
            )
            used, lost = bool(values["used"]), float(values["lost"])
            left, pause, calm, falls = (
                int(values[name]) for name in ("left", "pause", "calm", "falls")
            )
        except (KeyError, TypeError, ValueError):
            return
        self._last, self._base, self._aim, self._used = last, base, aim, used
        self._left, self._pause, self._calm, self._falls = left, pause, calm, falls
        self._lost = lost

    def _fell(self, found: Fall) -> bool:
        return found.drop >= self._drop and found.deviations >= self._deviations

    @property
    def _blamed(self) -> bool:
        """Whether the fall so far is enough for a pause."""
        return self._fell(self._fall) or (bool(self._aim) and self._fall.deviations >= NOTABLE)

    def _begin_pause(self) -> None:
        if self._aim:
            self._base, self._aim = self._aim, ()
            self._fall = fall(self._base, self._last)
        self._falls += 1
        self._calm = 0
        self._lost = self._fall.drop
        self._left = self._pause
        self._pause = min(2 * self._pause, LONGEST * self._evaluations)

    def _paused(self) -> None:
        """One more evaluation of own groups alone; the pause ends, or not yet."""
        self._left -= 1
        regained = not self._fell(self._fall) and self._fall.drop <= REGAINED * self._lost
        if regained and self._pause == 2 * self._evaluations:
            self._left = 0
        if self._left == 0:
            self._aim = () if regained else self._base
            if not regained or self._fall.drop < 0.0:
                self._base = self._last
            self._used = False

    def _go_on(self) -> None:
        self._calm += 1
        if self._calm >= LONGEST * self._evaluations:
            self._pause = self._evaluations
        if self._aim and not self._fell(fall(self._aim, self._last)):
            self._aim = ()
        if self._fall.deviations <= -NOTABLE:
            self._base, self._used = self._last, False
