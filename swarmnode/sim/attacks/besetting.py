"""What attackers do to the connections of an honest node: they answer late, or for others.

A wrapper around the transport of each honest node. `slow`: what an attacker is asked for comes just
before the network would give up (network/membership.py). `eclipse`: the attackers hold the places
of the DHT at which announcements are stored, so that a look there finds theirs alone; a connected
peer that is asked beside it, one at random, tells all that it knows, but an attacker only of
attackers. network/rendezvous.py looks at both too, though not at both each time.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarmnode.clock import Clock
from swarmnode.config.simulation import AttackName
from swarmnode.network.errands import FETCH_SECONDS
from swarmnode.network.transport import Delivered, Transport
from swarmproto import Bundle, FetchRequest, FetchResponse, open_announcement

SLOW_SECONDS = 0.95 * FETCH_SECONDS


@dataclass(frozen=True, slots=True)
class Hostile:
    """The attackers as the network knows them."""

    attack: AttackName
    swarm_id: bytes
    keys: frozenset[bytes]
    holders: frozenset[str]
    """Where they serve what they publish."""
    honest_peers: int
    """Honest ones that each honest node is connected to, beside all attackers."""


class Beset:
    """The transport of one honest node; see Transport."""

    def __init__(
        self,
        transport: Transport,
        hostile: Hostile,
        clock: Clock,
        rng: random.Random,
        *,
        asks_peers: bool = True,
        waits_seconds: float = SLOW_SECONDS,
    ) -> None:
        self._transport = transport
        self._hostile = hostile
        self._clock = clock
        self._rng = rng
        self._asks_peers = asks_peers
        self._waits_seconds = waits_seconds
        self._by_attackers: dict[bytes, bool] = {}

    def asking_nobody(self) -> Beset:
        """The same without connected peers that are asked: what no node does."""
        return Beset(self._transport, self._hostile, self._clock, self._rng, asks_peers=False)

    def waiting(self, seconds: float) -> Beset:
        """The same with another limit to how long an attacker is waited for."""
        return Beset(self._transport, self._hostile, self._clock, self._rng, waits_seconds=seconds)

    @property
    def holders(self) -> Sequence[str]:
        """As ever."""
        return self._transport.holders

    async def start(self) -> None:
        """As ever."""
        await self._transport.start()

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        """As ever."""
        await self._transport.announce(announcement, bundle, expires)

    async def discover(self, count: int) -> Sequence[Delivered]:
        """What the DHT and a peer tell; both are the attackers' under an eclipse."""
        found = await self._transport.discover(count)
        if self._hostile.attack != "eclipse" or self._hears_an_honest_peer():
            return found
        return [each for each in found if self._is_hostile(each.data)]

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """As late as the network lets an attacker be, where they are slow."""
        if self._hostile.attack == "slow" and holder in self._hostile.holders:
            await self._clock.sleep(self._waits_seconds)
        return await self._transport.fetch(holder, request)

    async def prefixes_of(self, peers: Sequence[str]) -> Sequence[str]:
        """As ever."""
        return await self._transport.prefixes_of(peers)

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """As ever."""
        await self._transport.hold(announcement, bundle_header, groups, expires)

    async def health(self) -> Mapping[str, Any]:
        """As ever."""
        return await self._transport.health()

    async def close(self) -> None:
        """As ever."""
        await self._transport.close()

    def _hears_an_honest_peer(self) -> bool:
        connected = self._hostile.honest_peers + len(self._hostile.keys)
        return self._asks_peers and self._rng.randrange(connected) < self._hostile.honest_peers

    def _is_hostile(self, announcement: bytes) -> bool:
        if announcement not in self._by_attackers:
            author = open_announcement(announcement, self._hostile.swarm_id).public_key
            self._by_attackers[announcement] = author in self._hostile.keys
        return self._by_attackers[announcement]
