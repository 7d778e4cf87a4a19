"""What scoring the groups of peers may cost: seconds of the scorer by address prefix. Pure.

A token bucket for each prefix. Work is weighed when it is done, so that a bucket can be overdrawn
by one request; nothing more is asked for its prefix until that is paid back. Own groups are none
of its business. Prefixes are texts that mean nothing here. The memory is bounded: whoever commands
more prefixes than are remembered is held by what a look fetches at most.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

PREFIXES = 4096
"""Prefixes that are remembered: those that asked for work last."""


@dataclass(slots=True)
class _Bucket:
    seconds: float
    at: float


class ScorerBudget:
    """Of every prefix: `share` seconds refilled a second, `saved` seconds saved up at most."""

    def __init__(self, share: float, saved: float, capacity: int = PREFIXES) -> None:
        self._share = share
        self._saved = saved
        self._capacity = capacity
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def left(self, prefix: str, now: float) -> float:
        """Seconds that a prefix may still spend at `now` seconds; below 0 where it overdrew."""
        bucket = self._buckets.get(prefix)
        if bucket is None:
            return self._saved
        # A clock that was set back refills nothing and takes nothing.
        bucket.seconds += max(0.0, now - bucket.at) * self._share
        bucket.seconds = min(bucket.seconds, self._saved)
        bucket.at = now
        return bucket.seconds

    def spend(self, prefix: str, seconds: float, now: float) -> None:
        """Take what the work of a prefix cost."""
        left = self.left(prefix, now)
        self._buckets[prefix] = _Bucket(left - seconds, now)
        self._buckets.move_to_end(prefix)
        while len(self._buckets) > self._capacity:
            self._buckets.popitem(last=False)
