"""Token buckets by name: what is refilled over time, saved up to a limit, and spent. Pure.

Names are texts that mean nothing here; a moment is passed in, in seconds. Bounded: the buckets that
were used last are kept, and one that was forgotten is full again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """Units refilled per second, and how many may be saved up."""

    per_second: float
    burst: float


@dataclass(slots=True)
class Bucket:
    """What is left at a moment; below 0 where more was spent than there was."""

    left: float
    at: float

    def refilled(self, rate: Rate, now: float) -> float:
        """What is left now. A clock that was set back refills nothing and takes nothing."""
        self.left = min(rate.burst, self.left + max(now - self.at, 0.0) * rate.per_second)
        self.at = now
        return self.left


class Buckets:
    """At most `capacity` buckets of one rate."""

    def __init__(self, rate: Rate, capacity: int) -> None:
        self._rate = rate
        self._capacity = capacity
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def of(self, name: str, now: float) -> Bucket:
        """The bucket of a name, refilled, to take from."""
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = Bucket(self._rate.burst, now)
            if len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(name)
            bucket.refilled(self._rate, now)
        return bucket

    def left(self, name: str, now: float) -> float:
        """What a name has left, which nobody has to remember it for."""
        bucket = self._buckets.get(name)
        return self._rate.burst if bucket is None else bucket.refilled(self._rate, now)

    def share(self, name: str, now: float) -> float:
        """The same as a share of what may be saved up."""
        return self.left(name, now) / self._rate.burst
