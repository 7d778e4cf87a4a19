"""A network of peers in one process: the shape of Peer, no sockets, faults on demand.

A DHT in which every server holds every record, so that what is lost is lost by faults alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from swarmnode.keys import peer_id_of
from swarmnode.network.peer import Handler, Heard, PeerUnreachable, peer_id_in
from swarmproto import public_key_of

Records = dict[str, dict[str, tuple[bytes, float]]]


class FakeWorld:
    """Who is there, and who can dial whom."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.peers: dict[str, FakePeer] = {}
        self.undialable: set[str] = set()
        self.silent: set[str] = set()
        self.has_dht = True
        self.down_addresses: set[str] = set()
        self.dials: list[tuple[float, str, str]] = []
        self.stored: list[tuple[str, str]] = []
        self.read: list[str] = []
        self.sent: list[bytes] = []
        """Values stored, requests and responses, as they leave a peer."""

    def connect(self, peer: FakePeer, address: str) -> bool:
        """Dial, and be connected both ways."""
        other = self.peers.get(peer_id_in(address))
        self.dials.append((self.now(), peer.peer_id, address))
        refused = other is None or address in self.down_addresses
        if other is None or refused or other.peer_id in self.undialable or other is peer:
            return False
        peer.links.add(other.peer_id)
        other.links.add(peer.peer_id)
        return True


class FakePeer:
    """See Peer."""

    def __init__(self, world: FakeWorld, private_key: bytes, port: int, server: bool) -> None:
        self.peer_id = peer_id_of(public_key_of(private_key))
        self.addresses: Sequence[str] = [f"/ip4/127.0.0.1/tcp/{port}/p2p/{self.peer_id}"]
        self.died = asyncio.Event()
        self.clock_offset: float | None = None
        self.bytes_in = 0
        self.bytes_out = 0
        self.server = server
        self.links: set[str] = set()
        self.records: Records = {}
        self.topics: dict[str, Heard] = {}
        self.handlers: dict[str, tuple[Handler, int]] = {}
        self.pinged: list[str] = []
        self.closed = False
        self._world = world
        world.peers[self.peer_id] = self

    def kill(self) -> None:
        """Die, as p2pd does."""
        self._gone()
        self.died.set()

    @property
    def has_dht(self) -> bool:
        """As the world has it."""
        return self._world.has_dht

    async def publish(self, topic: str, data: bytes) -> int:
        """To all who listen and are connected to each other, through others as well."""
        self._world.sent.append(data)
        passed, passing = {self.peer_id}, [self]
        while passing:
            for other in passing.pop()._others():
                if topic in other.topics and other.peer_id not in passed:
                    passed.add(other.peer_id)
                    if other.topics[topic](self.peer_id, data):
                        passing.append(other)
        return sum(topic in other.topics for other in self._others())

    def listen(self, topic: str, heard: Heard | None) -> None:
        """Hear, or don't."""
        self.topics.pop(topic, None)
        if heard is not None:
            self.topics[topic] = heard

    async def store(self, key: str, subkey: str, value: bytes, expires: float) -> int:
        """On every server that we are connected to."""
        self._world.stored.append((key, subkey))
        self._world.sent.append(value)
        servers = [other for other in self._others() if other.server]
        for holder in [*servers, *([self] if self.server else [])]:
            held = holder.records.setdefault(key, {})
            if subkey not in held or held[subkey][1] < expires:
                held[subkey] = value, expires
        return len(servers)

    async def get(self, keys: Sequence[str]) -> Mapping[str, Mapping[str, bytes]]:
        """From every server that we are connected to, and ourselves."""
        self._world.read.extend(keys)
        found: dict[str, dict[str, bytes]] = {}
        for holder in [self, *(other for other in self._others() if other.server)]:
            for key in keys:
                for subkey, (value, expires) in holder.records.get(key, {}).items():
                    if expires > self._world.now():
                        found.setdefault(key, {})[subkey] = value
        return found

    async def call(
        self, peer_id: str, protocol: str, request: bytes, response_limit: int, seconds: float
    ) -> bytes:
        """To a peer that we are connected to."""
        other = self._world.peers.get(peer_id)
        if other is None or peer_id not in self.links:
            raise PeerUnreachable("not connected")
        if peer_id in self._world.silent:
            await asyncio.sleep(10 * seconds)
        handler, limit = other.handlers.get(protocol, (None, 0))
        if handler is None or len(request) > limit:
            raise PeerUnreachable("no handler, or too long")
        response = await handler(self.peer_id, request)
        self._world.sent += (request, response)
        if len(response) > response_limit:
            raise PeerUnreachable("too long")
        self.bytes_out += len(request)
        self.bytes_in += len(response)
        return response

    def serve(self, protocol: str, handler: Handler, request_limit: int) -> None:
        """Answer."""
        self.handlers[protocol] = handler, request_limit

    async def connect(self, address: str) -> bool:
        """Dial."""
        return self._world.connect(self, address)

    async def disconnect(self, peer_id: str) -> None:
        """Hang up."""
        self.links.discard(peer_id)
        if peer_id in self._world.peers:
            self._world.peers[peer_id].links.discard(self.peer_id)

    async def connected(self) -> Sequence[tuple[str, str]]:
        """Links, each with the address of the other."""
        return [(other.peer_id, other.addresses[0]) for other in self._others()]

    async def ping(self, peer_id: str) -> bool:
        """Whether it is there."""
        self.pinged.append(peer_id)
        return peer_id in self.links and peer_id not in self._world.silent

    def export_records(self) -> Any:
        """What we hold."""
        return self.records

    def import_records(self, records: Any) -> None:
        """What the one before held."""
        self.records = records

    async def close(self) -> None:
        """End."""
        self.closed = True
        self._gone()

    def _others(self) -> list[FakePeer]:
        return [self._world.peers[each] for each in sorted(self.links) if each in self._world.peers]

    def _gone(self) -> None:
        if self._world.peers.get(self.peer_id) is self:
            del self._world.peers[self.peer_id]
        for other in self._world.peers.values():
            other.links.discard(self.peer_id)


def builder(
    world: FakeWorld, private_key: bytes, port: int
) -> Callable[[bool], Awaitable[FakePeer]]:
    """Builds the peers of one node, one after another."""

    async def build(server: bool) -> FakePeer:
        return FakePeer(world, private_key, port, server)

    return build
