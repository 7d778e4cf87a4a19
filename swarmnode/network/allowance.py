"""What each peer may ask of us, and what it got: token buckets by peer, by prefix and for all.

Pure but for the clock that is passed in. Keys are free, so that fifty of them at one address may
ask what that address may ask; whom we know through others only share one prefix. The number of
buckets is bounded, the one for all protects us, and the other two keep the others' share open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from swarmnode.clock import Clock

REMEMBERED: Final = 1024
"""Peers, and prefixes, whose buckets are kept: p2pd keeps 160 connections."""

Short = Literal["peer", "prefix", "all"]
"""Whose bucket has too little left."""


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


class _Buckets:
    """Of one rate, by name; those used last."""

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def of(self, name: str, now: float) -> _Bucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(self._rate.burst, now)
            if len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(name)
            bucket.refilled(self._rate, now)
        return bucket

    def share(self, name: str, now: float) -> float:
        bucket = self._buckets.get(name)
        return 1.0 if bucket is None else bucket.refilled(self._rate, now) / self._rate.burst


class Allowance:
    """Units that may still be spent, by peer, by the peer's prefix, and in all."""

    def __init__(
        self,
        clock: Clock,
        prefix_of: Callable[[str], str],
        *,
        each: Rate,
        prefix: Rate,
        together: Rate,
    ) -> None:
        self._clock = clock
        self._prefix_of = prefix_of
        self._peers = _Buckets(each)
        self._prefixes = _Buckets(prefix)
        self._together = together
        self._all = _Bucket(together.burst, clock.now())

    def take(self, peer_id: str, units: float) -> Short | None:
        """Take `units` from all three buckets, if all have them; else whose has not."""
        now = self._clock.now()
        own = self._peers.of(peer_id, now)
        if units > own.left:
            return "peer"
        near = self._prefixes.of(self._prefix_of(peer_id), now)
        if units > near.left:
            return "prefix"
        if units > self._all.refilled(self._together, now):
            return "all"
        for bucket in (own, near, self._all):
            bucket.left -= units
        return None

    def spend(self, peer_id: str, units: float) -> bool:
        """Take `units` from all three buckets, if all have them."""
        return self.take(peer_id, units) is None

    def left(self, peer_id: str) -> tuple[float, float]:
        """What is left to a peer and to its prefix, as shares of what may be saved up."""
        now = self._clock.now()
        prefix = self._prefix_of(peer_id)
        return self._peers.share(peer_id, now), self._prefixes.share(prefix, now)


class BytesByPeer:
    """Bytes counted by peer, of the REMEMBERED that were counted last."""

    def __init__(self) -> None:
        self._bytes: OrderedDict[str, int] = OrderedDict()

    def add(self, peer_id: str, size: int) -> None:
        """Count some."""
        self._bytes[peer_id] = self._bytes.get(peer_id, 0) + size
        self._bytes.move_to_end(peer_id)
        while len(self._bytes) > REMEMBERED:
            self._bytes.popitem(last=False)

    def of(self, peer_id: str) -> int:
        """What was counted for one peer."""
        return self._bytes.get(peer_id, 0)
