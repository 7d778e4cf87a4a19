"""How long something has been so, and how often something happened of late.

Small memories for whoever gathers facts; time is passed in, any clock in seconds. They know what
they are told: whoever asks them once in an hour hears of that hour as if it were one moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping

HOUR_SECONDS = 3600.0
_FAILED = "channels/failed/"


class Lasting:
    """Since when a value has been what it is."""

    def __init__(self) -> None:
        self._value: Hashable = None
        self._since = 0.0

    def seconds(self, value: Hashable, now: float) -> float:
        """How long it has been `value`, seen from here; 0.0 when it has just become so."""
        if value != self._value:
            self._value, self._since = value, now
        return max(0.0, now - self._since)


class LastHour:
    """How much a counter that only grows has grown in the last hour."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def growth(self, total: int, now: float) -> int:
        """Take in the counter's present value. What it was at the first call doesn't count."""
        if not self._seen or total != self._seen[-1][1]:
            self._seen.append((now, total))
        # The newest value from before the window is what growth is measured against.
        while len(self._seen) > 1 and self._seen[1][0] <= now - HOUR_SECONDS:
            self._seen.popleft()
        return total - self._seen[0][1]


class FailingRewards:
    """Rounds in a row in which a reward could not be told, by channel."""

    def __init__(self) -> None:
        self.rounds: Mapping[str, int] = {}

    def heard(self, metrics: Mapping[str, float]) -> None:
        """A round has ended; one without a step says nothing of rewards."""
        told = {
            name.removeprefix(_FAILED): count
            for name, count in metrics.items()
            if name.startswith(_FAILED)
        }
        if told:
            self.rounds = {
                name: self.rounds.get(name, 0) + 1 for name, count in told.items() if count
            }
