"""A local network in one process: links that hear each other, and whom a node is connected to."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network

from swarmnode.clock import Clock, VirtualClock
from swarmnode.keys import peer_id_of
from swarmnode.network.lan import Lan
from swarmnode.network.lan_links import Heard
from swarmnode.network.lan_messages import Language, service_type
from swarmnode.network.peer import peer_id_in
from swarmnode.network.premises import Place, Premises
from swarmproto import SwarmSecret, public_key_of
from tests.unit.network_made import SWARM, private_key

LOOPBACK = Place("lo", "127.0.0.1", IPv4Network("127.0.0.0/8"))
NETWORK = IPv4Network("192.168.1.0/24")


def peer_id(number: int) -> str:
    """By number."""
    return peer_id_of(public_key_of(private_key(number)))


def place_of(number: int, network: IPv4Network = NETWORK) -> Place:
    """By number."""
    return Place("wlan0", str(network[number]), network)


@dataclass
class Air:
    """Everybody on one link hears what anybody says; where `lost` says so nobody does."""

    links: list[AirLink] = field(default_factory=list)
    said: list[tuple[float, str, bytes]] = field(default_factory=list)
    """When, by whom, what."""
    lost: bool = False

    def say(self, host: str, message: bytes) -> None:
        """As from this host."""
        self.said.append((asyncio.get_running_loop().time(), host, message))
        if not self.lost:
            for link in list(self.links):
                link.heard(message, host)


class AirLink:
    """See Link."""

    def __init__(self, air: Air, place: Place, heard: Heard) -> None:
        self.counts: Counter[str] = Counter()
        self.heard = heard
        self._air = air
        self._host = place.host
        air.links.append(self)

    def say(self, message: bytes) -> None:
        """See Link."""
        self._air.say(self._host, message)

    def close(self) -> None:
        """See Link."""
        if self in self._air.links:
            self._air.links.remove(self)


class Near:
    """A machine: where it is, whom it is connected to, and what it dialled."""

    def __init__(
        self,
        air: Air,
        number: int,
        clock: Clock,
        *,
        swarm: bytes = SWARM,
        secret: SwarmSecret | None = None,
    ) -> None:
        self.peer_id = peer_id(number)
        self.present: Sequence[Place] = [place_of(number)]
        self.connected: Collection[str] = set()
        self.dialled: list[str] = []
        self.probed: list[tuple[str, int]] = []
        self.refuses: set[str] = set()
        self.broken = ""
        self.renewed = 0
        self.premises = Premises(lambda: self.present, 4000 + number)
        self.premises.settle(())
        rng = random.Random(number)
        self.lan = Lan(
            peer_id=self.peer_id,
            language=Language(service_type(swarm, secret), f"{number:016x}"),
            premises=self.premises,
            open_link=self._open,
            probe=self._probe,
            clock=clock,
            rng=rng,
        )
        self._air = air

    async def meet(self, address: str) -> bool:
        """See Company."""
        self.dialled.append(address)
        if peer_id_in(address) in self.refuses:
            return False
        assert isinstance(self.connected, set)
        self.connected.add(peer_id_in(address))
        return True

    def moved(self) -> None:
        """See Company: another peer listens at once."""
        self.renewed += 1
        self.premises.settle(())
        self.lan.again()

    async def _probe(self, host: str, port: int) -> bool:
        self.probed.append((host, port))
        return True

    def _open(self, place: Place, heard: Heard) -> AirLink:
        if self.broken:
            raise OSError(1, self.broken)
        return AirLink(self._air, place, heard)


@asynccontextmanager
async def on_air(*machines: Near) -> AsyncIterator[None]:
    """They run meanwhile."""
    running = [asyncio.ensure_future(each.lan.run(each)) for each in machines]
    try:
        yield
    finally:
        for task in running:
            task.cancel()
        results = await asyncio.gather(*running, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in results), results


async def until_connected(machine: Near, other: Near, clock: VirtualClock, seconds: float) -> float:
    """Wait until one machine has met another; how long it took."""
    begun = clock.now()
    while other.peer_id not in machine.connected:
        assert clock.now() - begun < seconds, "they did not meet"
        await asyncio.sleep(0.1)
    return clock.now() - begun
