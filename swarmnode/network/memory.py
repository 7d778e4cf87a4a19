"""A swarm's network inside one process: seeded latency and loss, no sockets.

The rendezvous is one shared list, so every announcement that was not lost is known to all after
its delay. Randomness comes from a generator per endpoint: what one node does never changes
another's luck.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from swarmnode.clock import Clock
from swarmnode.network.shelf import Shelf
from swarmnode.network.transport import UNKNOWN_HEALTH, Delivered, TransportError
from swarmnode.prefixes import own_prefix
from swarmproto import Bundle, FetchRequest, FetchResponse

Serve = Callable[[FetchRequest], FetchResponse]
"""What an endpoint answers to one that fetches."""

SHELF_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Known:
    announcement: bytes
    visible: float
    expires: float


class MemoryNetwork:
    """The medium that its endpoints share.

    `latency_seconds` is the average one-way delay (uniform in 0.5 to 1.5 times it), `loss` the
    probability in [0, 1) that an announcement or a fetch is lost. `prefix_of` gives the address
    prefix of a peer by its id: one of its own, unless something else is to be simulated.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        latency_seconds: float,
        loss: float,
        seed: int,
        prefix_of: Callable[[str], str] = own_prefix,
    ) -> None:
        self.prefix_of = prefix_of
        self._clock = clock
        self._latency_seconds = latency_seconds
        self._loss = loss
        self._seed = seed
        self._known: deque[_Known] = deque()
        self._serving: dict[str, Serve] = {}

    def endpoint(self, address: str) -> MemoryTransport:
        """A transport for one node; addresses are the caller's and must be distinct."""
        generator = random.Random(f"{self._seed}/network/{address}")
        shelf = Shelf(self._clock, quota_bytes=SHELF_BYTES)
        return MemoryTransport(self, address, shelf, generator)

    def join(self, address: str, serve: Serve) -> None:
        """Let the endpoint at `address` be fetched from."""
        self._serving[address] = serve

    def leave(self, address: str) -> None:
        """Stop serving; what the endpoint announced stays known until it expires."""
        self._serving.pop(address, None)

    def publish(self, announcement: bytes, expires: float, generator: random.Random) -> None:
        """Make an announcement visible to all after a delay, unless it is lost."""
        delay, lost = self._delay(generator), generator.random() < self._loss
        if not lost:
            self._known.append(_Known(announcement, self._clock.now() + delay, expires))

    @property
    def members(self) -> int:
        """Endpoints that can be fetched from."""
        return len(self._serving)

    @property
    def known_announcements(self) -> int:
        """Announcements that are visible by now."""
        now = self._clock.now()
        return sum(known.visible <= now < known.expires for known in self._known)

    async def sample(self, count: int, generator: random.Random) -> Sequence[bytes]:
        """The `count` newest visible announcements in random order, after a round trip."""
        await self._clock.sleep(self._delay(generator) + self._delay(generator))
        now = self._clock.now()
        while self._known and self._known[0].expires <= now:
            self._known.popleft()
        fresh = (
            known.announcement
            for known in reversed(self._known)
            if known.visible <= now < known.expires
        )
        newest = list(islice(fresh, count))
        generator.shuffle(newest)
        return newest

    async def carry(
        self, holder: str, request: FetchRequest, generator: random.Random
    ) -> FetchResponse:
        """A fetch and its answer, after a round trip. Raises TransportError when it is lost."""
        await self._clock.sleep(self._delay(generator) + self._delay(generator))
        serve = self._serving.get(holder)
        if serve is None or generator.random() < self._loss:
            raise TransportError(f"no answer from {holder}")
        return serve(request)

    def _delay(self, generator: random.Random) -> float:
        return self._latency_seconds * generator.uniform(0.5, 1.5)


class MemoryTransport:
    """One node's end of a MemoryNetwork; see Transport."""

    def __init__(
        self, network: MemoryNetwork, address: str, shelf: Shelf, generator: random.Random
    ) -> None:
        self._network = network
        self._address = address
        self._generator = generator
        self.shelf = shelf
        """What this endpoint serves."""

    @property
    def holders(self) -> Sequence[str]:
        """This endpoint alone, since every endpoint can be reached."""
        return (self._address,)

    async def start(self) -> None:
        """Join the network."""
        self._network.join(self._address, self.shelf.answer)

    async def announce(self, announcement: bytes, bundle: Bundle, expires: float) -> None:
        """Hold the bundle and make it known until `expires` (seconds since 1970)."""
        self.shelf.put(bundle, expires)
        self._network.publish(announcement, expires, self._generator)

    async def discover(self, count: int) -> Sequence[Delivered]:
        """At most `count` known announcements, the newest, in random order."""
        # The rendezvous is one shared list: nobody stands between an author and its readers.
        return [Delivered(data, "") for data in await self._network.sample(count, self._generator)]

    async def fetch(self, holder: str, request: FetchRequest) -> FetchResponse:
        """Fetch a header and chosen groups from `holder`. Raises TransportError."""
        return await self._network.carry(holder, request, self._generator)

    async def prefixes_of(self, peers: Sequence[str]) -> Sequence[str]:
        """As the network says."""
        return [self._network.prefix_of(peer) for peer in peers]

    async def hold(
        self, announcement: bytes, bundle_header: bytes, groups: Mapping[int, bytes], expires: float
    ) -> None:
        """Nothing: announcements name their author as the only holder, so nobody would ask."""

    async def health(self) -> Mapping[str, Any]:
        """The same keys as on a real network; no bytes are counted, since none are sent."""
        others = self._network.members - 1
        return {
            **UNKNOWN_HEALTH,
            "state": "connected" if others > 0 else "alone",
            "peer_id": self._address,
            "addresses": [self._address],
            "reachable": True,
            "peers": max(others, 0),
            "known_announcements": self._network.known_announcements,
            "swarm_size": self._network.members,
            "clock_offset_seconds": 0.0,
        }

    async def close(self) -> None:
        """Leave the network."""
        self._network.leave(self._address)
