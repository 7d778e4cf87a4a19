"""Live peers of py-libp2p on loopback, all in one process, and strangers who keep no rules."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

if importlib.util.find_spec("libp2p") is None:
    pytest.skip("the extra libp2p is not installed", allow_module_level=True)

from swarmnode.clock import SystemClock
from swarmnode.network.doors import Doors
from swarmnode.network.libp2p_host import GuardedHost
from swarmnode.network.libp2p_peer import Libp2pPeer
from swarmnode.network.light_libp2p import (
    Multiaddr,
    PeerID,
    PeerInfo,
    background_service,
    trio,
)
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.trio_guest import Guest
from swarmnode.network.whereabouts import Whereabouts
from swarmnode.prefixes import networks
from tests.unit.network_made import SWARM, private_key

__all__ = [
    "ECHO",
    "Libp2pPeer",
    "behind",
    "echo",
    "guest",
    "order",
    "peers",
    "run",
    "stranger",
    "until",
]

LOOPBACK = networks(["127.0.0.0/8"])


ECHO = "/swarmnode/echo/1"


async def echo(_peer_id: str, request: bytes) -> bytes:
    """A handler that answers what it was asked."""
    return request


def order(number: int, folder: Path, **changes: Any) -> PeerOrder:
    """For the key of that number, with doors of its own."""
    doors = Doors(SystemClock(), Whereabouts(LOOPBACK))
    return replace(PeerOrder(private_key(number), SWARM, folder, doors=doors), **changes)


@asynccontextmanager
async def guest() -> AsyncIterator[Guest]:
    """A loop can have one."""
    running = await Guest.start()
    try:
        yield running
    finally:
        await running.close()


@asynccontextmanager
async def peers(on: Guest, *orders: PeerOrder) -> AsyncIterator[list[Libp2pPeer]]:
    """Peers of these orders, the first one bootstrap of the others."""
    started: list[Libp2pPeer] = []
    try:
        for each in orders:
            known = tuple(started[0].addresses) if started else ()
            ordered = replace(each, bootstrap=(*known, *each.bootstrap))
            started.append(await Libp2pPeer.start_on(on, ordered))
        yield started
    finally:
        await asyncio.gather(*(peer.close() for peer in started))


@dataclass
class Behind:
    """A relay, and two peers that nobody can dial, as they believe, each with a place there."""

    on: Any
    relay: Libp2pPeer
    one: Libp2pPeer
    two: Libp2pPeer

    @property
    def circuit(self) -> str:
        """The address of `one` by way of the relay."""
        return next(each for each in self.one.addresses if "p2p-circuit" in each)


@asynccontextmanager
async def behind(folder: Path) -> AsyncIterator[Behind]:
    hidden = {"public": True, "unreached": lambda: True}
    orders = [
        order(1, folder, relay=True),
        order(2, folder, **hidden),
        order(3, folder, **hidden),
    ]
    async with guest() as on, peers(on, *orders) as (relay, one, two):
        await until(lambda: all("p2p-circuit" in str(each.addresses) for each in (one, two)))
        yield Behind(on, relay, one, two)


class Stranger:
    """A host without doors, whose `on_stream` lets it say what it likes."""

    def __init__(self, on: Guest, number: int) -> None:
        guarded = GuardedHost(private_key(number), (), None)
        self.guest = on
        self.swarm = guarded.swarm
        self.host = guarded.host
        self.peer_id = str(self.host.get_id())

    async def live(self, begun: asyncio.Event) -> None:
        """Under trio."""
        async with background_service(self.swarm):
            begun.set()
            await trio.sleep_forever()

    async def connect(self, address: str) -> None:
        """Dial a peer."""
        await self.guest.call(self.dial, address)

    async def dial(self, address: str) -> None:
        """The same, under trio."""
        place, _, peer_id = address.rpartition("/p2p/")
        await self.host.connect(PeerInfo(PeerID.from_base58(peer_id), [Multiaddr(place)]))

    async def on_stream(
        self, peer_id: str, protocol: str, say: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """What `say` makes of a stream, under trio."""

        async def talk() -> Any:
            stream = await self.host.new_stream(PeerID.from_base58(peer_id), [protocol])
            return await say(stream)

        return await self.guest.call(talk)


@asynccontextmanager
async def stranger(on: Guest, number: int) -> AsyncIterator[Stranger]:
    """Listens nowhere."""
    made = await on.call(_made, on, number)
    begun = asyncio.Event()
    living = asyncio.ensure_future(on.call(made.live, begun))
    await begun.wait()
    try:
        yield made
    finally:
        living.cancel()
        await asyncio.wait([living])


async def _made(on: Guest, number: int) -> Stranger:
    return Stranger(on, number)


async def until(holds: Callable[[], Any], seconds: float = 30.0) -> None:
    """Wait for something to hold, which may have to be awaited."""
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await asyncio.sleep(0.05)


def run(scenario: Callable[[], Awaitable[None]], seconds: float = 100.0) -> None:
    """Under uvloop; nothing may be complained of by the loop."""
    complaints: list[dict[str, Any]] = []

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        async with asyncio.timeout(seconds):
            await scenario()

    uvloop.run(watched())
    assert not complaints, complaints
