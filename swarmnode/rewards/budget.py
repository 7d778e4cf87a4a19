"""What scoring the groups of peers may cost: seconds of the scorer by address prefix. Pure.

Work is weighed when it is done, so that a bucket can be overdrawn by one request; nothing more is
asked for its prefix until that is paid back. Own groups are none of its business. The memory is
bounded: whoever commands more prefixes than are remembered is held by what a look fetches at most.
"""

from __future__ import annotations

from swarmnode.buckets import Buckets, Rate

PREFIXES = 4096
"""Prefixes that are remembered: those that asked for work last."""


class ScorerBudget:
    """Of every prefix: `share` seconds refilled a second, `saved` seconds saved up at most."""

    def __init__(self, share: float, saved: float, capacity: int = PREFIXES) -> None:
        self._buckets = Buckets(Rate(share, saved), capacity)

    def __len__(self) -> int:
        return len(self._buckets)

    def left(self, prefix: str, now: float) -> float:
        """Seconds that a prefix may still spend at `now` seconds; below 0 where it overdrew."""
        return self._buckets.left(prefix, now)

    def spend(self, prefix: str, seconds: float, now: float) -> None:
        """Take what the work of a prefix cost."""
        self._buckets.of(prefix, now).left -= seconds
