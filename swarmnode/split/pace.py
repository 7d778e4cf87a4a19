"""How fast a side is, and how much of its time it waits. Pure: durations are passed in."""

from __future__ import annotations

_KEPT = 7 / 8
"""What a piece of work leaves of the weight of those before: about the last eight count."""
_SETTLED_PIECES = 8


class Pace:
    """Work by its pieces, with the waiting before each."""

    def __init__(self) -> None:
        self._units = 0.0
        self._work = 0.0
        self._wait = 0.0
        self._pieces = 0

    def did(self, units: int, work_seconds: float, wait_seconds: float) -> None:
        """So many rounds or groups are done. Less than no time, by a clock that was set back, is
        none."""
        self._pieces += 1
        self._units = self._units * _KEPT + units
        self._work = self._work * _KEPT + max(0.0, work_seconds)
        self._wait = self._wait * _KEPT + max(0.0, wait_seconds)

    @property
    def unit_seconds(self) -> float | None:
        """What one takes; None before the first."""
        return self._work / self._units if self._units else None

    @property
    def interval_seconds(self) -> float | None:
        """From one to the next, waiting included; None before the first."""
        return (self._work + self._wait) / self._units if self._units else None

    @property
    def idle_share(self) -> float:
        """Share of the time that was waited, in [0, 1]; 0.0 before the first."""
        total = self._work + self._wait
        return self._wait / total if total else 0.0

    @property
    def settled_idle_share(self) -> float:
        """The same, once enough is done to speak of it; 0.0 before."""
        return self.idle_share if self._pieces >= _SETTLED_PIECES else 0.0
