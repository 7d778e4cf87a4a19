"""What a figure was in the first rounds, and what it is now.

A baseline is the median of the first values, its spread is made of their median absolute deviation:
single odd rounds move neither. Now is an exponential mean, so that single odd rounds don't alarm;
the spread is what such a mean varies by if rounds are independent. Plain values go to a checkpoint
and come back.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

MEMORY = 0.8
"""What a round leaves of the exponential mean: about five rounds count."""
_TO_DEVIATION = 1.4826 * ((1.0 - MEMORY) / (1.0 + MEMORY)) ** 0.5
"""From the median absolute deviation of rounds to the standard deviation of their exponential mean,
for a normal distribution."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A figure against its baseline."""

    recent: float
    start: float
    spread: float
    """At least 0."""

    @property
    def deviations(self) -> float:
        """Distance from the start in spreads; infinite where nothing ever varied."""
        distance = abs(self.recent - self.start)
        if distance == 0.0:
            return 0.0
        return distance / self.spread if self.spread else float("inf")


@dataclass(slots=True)
class Baseline:
    """One figure's first values, and its recent mean once these are complete."""

    first: list[float] = field(default_factory=list)
    recent: float | None = None

    def observe(self, value: float, first_rounds: int) -> Reading | None:
        """Take in a round's value; None as long as the first rounds last."""
        if len(self.first) < first_rounds:
            self.first.append(value)
            return None
        before = self.start if self.recent is None else self.recent
        self.recent = MEMORY * before + (1.0 - MEMORY) * value
        return self.reading(first_rounds)

    def reading(self, first_rounds: int) -> Reading | None:
        """How it stands, without a new value."""
        if len(self.first) < first_rounds or self.recent is None:
            return None
        start = self.start
        spread = _TO_DEVIATION * statistics.median(abs(each - start) for each in self.first)
        return Reading(self.recent, start, spread)

    @property
    def start(self) -> float:
        """The median of the first values, of which there must be one."""
        return statistics.median(self.first)

    def forget_recent(self) -> None:
        """Begin anew from the start: what was recent is undone."""
        self.recent = None

    def to_values(self) -> list[object]:
        """As plain values."""
        return [self.first, self.recent]

    @classmethod
    def from_values(cls, values: Sequence[object]) -> Baseline:
        """The inverse. Raises TypeError or ValueError for anything else."""
        first, recent = values
        if not isinstance(first, list):
            raise TypeError("not a baseline")
        now = None if recent is None else float(recent)  # type: ignore[arg-type]  # raises as said
        return cls([float(each) for each in first], now)
