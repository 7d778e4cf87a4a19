"""What each peer may ask of us, and what it got: token buckets by peer, by prefix and for all.

Pure but for the clock that is passed in. Keys are free, so that fifty of them at one address may
ask what that address may ask; whom we know through others only share one prefix. The number of
buckets is bounded, the one for all protects us, and the other two keep the others' share open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal

from swarmnode.buckets import Bucket, Buckets, Rate
from swarmnode.clock import Clock

REMEMBERED: Final = 1024
"""Peers, and prefixes, whose buckets are kept: p2pd keeps 160 connections."""

Short = Literal["peer", "prefix", "all"]
"""Whose bucket has too little left."""


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
        self._peers = Buckets(each, REMEMBERED)
        self._prefixes = Buckets(prefix, REMEMBERED)
        self._together = together
        self._all = Bucket(together.burst, clock.now())

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
