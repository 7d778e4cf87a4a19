"""What each peer may ask of us, and what it got: token buckets, one for each and one for all.

Pure but for the clock that is passed in. Ids of peers are free, so the number of buckets is
bounded and the common bucket is what protects us; a peer's own keeps the others' share open.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from swarmnode.clock import Clock

PEERS_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class Rate:
    """Units refilled per second, and how many may be saved up."""

    per_second: float
    burst: float


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float

    def refilled(self, rate: Rate, now: float) -> float:
        self.left = min(rate.burst, self.left + max(now - self.at, 0.0) * rate.per_second)
        self.at = now
        return self.left


class Allowance:
    """Units that may still be spent, by peer and in all."""

    def __init__(self, clock: Clock, *, each: Rate, together: Rate) -> None:
        self._clock = clock
        self._each = each
        self._together = together
        self._all = _Bucket(together.burst, clock.now())
        self._peers: OrderedDict[str, _Bucket] = OrderedDict()

    def spend(self, peer_id: str, units: float) -> bool:
        """Take `units` from both buckets, if both have them."""
        now = self._clock.now()
        bucket = self._peers.setdefault(peer_id, _Bucket(self._each.burst, now))
        self._peers.move_to_end(peer_id)
        while len(self._peers) > PEERS_REMEMBERED:
            self._peers.popitem(last=False)
        own = bucket.refilled(self._each, now)
        if units > own or units > self._all.refilled(self._together, now):
            return False
        bucket.left -= units
        self._all.left -= units
        return True


class BytesByPeer:
    """Bytes counted by peer, of the PEERS_REMEMBERED that were counted last."""

    def __init__(self) -> None:
        self._bytes: OrderedDict[str, int] = OrderedDict()

    def add(self, peer_id: str, size: int) -> None:
        """Count some."""
        self._bytes[peer_id] = self._bytes.get(peer_id, 0) + size
        self._bytes.move_to_end(peer_id)
        while len(self._bytes) > PEERS_REMEMBERED:
            self._bytes.popitem(last=False)

    def of(self, peer_id: str) -> int:
        """What was counted for one peer."""
        return self._bytes.get(peer_id, 0)
