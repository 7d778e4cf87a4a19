"""A libp2p peer on py-libp2p: requests and answers over streams, topics, no DHT.

Runs in the network process, in its event loop, with trio as a guest of it. Invariants: every call
ends within its time limit; `close` leaves nothing behind.
Source: network.md sections 2 and 3.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import structlog

from swarmnode.network.addresses import RELAYED
from swarmnode.network.beside import Beside
from swarmnode.network.libp2p_autonat import AutoNat
from swarmnode.network.libp2p_circuits import CircuitsOfOurs
from swarmnode.network.libp2p_gossip import Gossiping
from swarmnode.network.libp2p_host import GuardedHost
from swarmnode.network.libp2p_punching import Punching
from swarmnode.network.libp2p_relay import Relay
from swarmnode.network.libp2p_requests import Requests
from swarmnode.network.libp2p_streams import address_of, expanded, parsed
from swarmnode.network.light_libp2p import PeerID, PeerInfo, trio
from swarmnode.network.peer import Handler, Heard, peer_id_in
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.ports import PortsHeld, StartFailed, hold_ports
from swarmnode.network.trio_guest import Guest

START_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0
ADDRESS_SECONDS: Final = 120
"""That an address is kept for one dial."""

log = structlog.get_logger()


class Libp2pPeer:
    """The Peer of peer.py; built by `start`, of no use once `died` is set."""

    def __init__(self, guest: Guest, ports: PortsHeld) -> None:
        self.died: Final = asyncio.Event()
        self.peer_id = ""
        self._listened: Sequence[str] = ()
        self._guest = guest
        self._own_guest = False
        self._ports = ports
        self._beside = Beside()
        self._guarded: GuardedHost
        self._requests: Requests
        self._gossiping: Gossiping
        self._circuits: CircuitsOfOurs | None = None
        self._punching: Punching | None = None

    @classmethod
    async def start(cls, order: PeerOrder) -> Libp2pPeer:
        """Raises StartFailed; bootstrap peers that don't answer are no failure."""
        guest = await Guest.start()
        try:
            peer = await cls.start_on(guest, order)
        except BaseException:
            await guest.close()
            raise
        peer._own_guest = True
        return peer

    @classmethod
    async def start_on(cls, guest: Guest, order: PeerOrder) -> Libp2pPeer:
        """Beside others: a loop can have one guest. See start."""
        for address in order.listen:
            if "/udp/" in address:
                raise StartFailed(
                    f"libp2p listens by TCP, not on {address}: leave that out, or take hivemind"
                )
        peer = cls(guest, hold_ports(order.listen))
        try:
            await peer._begin(order)
        except TimeoutError:
            await peer.close()
            raise StartFailed(f"libp2p did not start in {START_SECONDS:.0f} seconds") from None
        except BaseException:
            await peer.close()
            raise
        await peer._beside.dial(peer.connect, order.bootstrap)
        return peer

    @property
    def addresses(self) -> Sequence[str]:
        """See Peer; those through relays come and go."""
        return [*self._listened, *(self._circuits.addresses if self._circuits else ())]

    @property
    def has_dht(self) -> bool:
        """False."""
        return False

    @property
    def clock_offset(self) -> float | None:
        """None: nobody tells its clock but in announcements."""
        return None

    @property
    def bytes_in(self) -> int:
        """Bytes of messages received, without what libp2p adds."""
        return self._requests.bytes_in + self._gossiping.bytes_in

    @property
    def bytes_out(self) -> int:
        """Bytes of messages sent, without what libp2p adds."""
        return self._requests.bytes_out + self._gossiping.bytes_out

    async def store(self, _key: str, _subkey: str, _value: bytes, _expires: float) -> int:
        """0."""
        return 0

    async def get(self, _keys: Sequence[str]) -> Mapping[str, Mapping[str, bytes]]:
        """Nothing."""
        return {}

    async def publish(self, topic: str, data: bytes) -> int:
        """See Gossiping; 0 where libp2p has ended."""
        with contextlib.suppress(ConnectionError):
            return await self._guest.call(self._gossiping.publish, topic, data)
        return 0

    def listen(self, topic: str, heard: Heard | None) -> None:
        """See Gossiping."""
        self._beside.begin(self._listen(topic, heard))

    async def call(
        self,
        peer_id: str,
        protocol: str,
        request: bytes,
        response_limit: int,
        timeout_seconds: float,
    ) -> bytes:
        """See Requests."""
        return await self._requests.call(
            peer_id, protocol, request, response_limit, timeout_seconds
        )

    def serve(self, protocol: str, handler: Handler, request_limit: int) -> None:
        """See Requests."""
        self._requests.serve(protocol, handler, request_limit)

    async def ping(self, peer_id: str) -> bool:
        """See Requests."""
        return await self._requests.ping(peer_id)

    async def connect(self, address: str) -> bool:
        """Dial a multiaddr that ends in /p2p/ID; through a relay only where ours may be used."""
        dial = self._dial
        if RELAYED in address:
            if self._circuits is None:
                return False
            dial = self._circuits.connect
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._guest.call(dial, address)
        except Exception:  # py-libp2p raises what it likes, of an address that is none as well
            return False
        return True

    async def disconnect(self, peer_id: str) -> None:
        """Hang up; no failure if there is nothing to hang up."""
        with contextlib.suppress(Exception):
            peer = PeerID.from_base58(peer_id)
            await self._guest.call(self._guarded.swarm.close_peer, peer)

    async def connected(self) -> Sequence[tuple[str, str]]:
        """Id and address of each connected peer."""
        if self.died.is_set():
            return []
        return [
            (str(peer), address_of(connection, str(peer)))
            for peer, connections in self._guarded.swarm.connections.items()
            for connection in connections
            if not connection.is_closed
        ]

    def export_records(self) -> None:
        """None are held."""

    def import_records(self, _records: None) -> None:
        """None are held."""

    async def close(self) -> None:
        """May be called again."""
        await self._beside.end()
        if self._own_guest:
            await self._guest.close()
        self._ports.release()
        self.died.set()

    async def _listen(self, topic: str, heard: Heard | None) -> None:
        with contextlib.suppress(ConnectionError):
            await self._guest.call(self._gossiping.listen, topic, heard)

    async def _begin(self, order: PeerOrder) -> None:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        living = self._beside.begin(self._guest.call(self._live, order, begun))
        async with asyncio.timeout(START_SECONDS):
            await asyncio.wait([living, begun], return_when=asyncio.FIRST_COMPLETED)
        if not begun.done():
            try:
                await living
            except ExceptionGroup as group:
                raise _first(group) from None
        living.add_done_callback(self._over)

    async def _live(self, order: PeerOrder, begun: asyncio.Future[None]) -> None:
        """The host's life, under trio."""
        self._guarded = GuardedHost(order.private_key, order.announce_addresses, order.doors)
        self._requests = Requests(self._guest, self._guarded)
        self._gossiping = Gossiping(self._guarded.host, order.private_key, order.doors)
        services = self._services(order)
        async with (
            self._gossiping.running(),
            self._guarded.running(order.listen),
            trio.open_nursery() as nursery,
        ):
            self.peer_id = str(self._guarded.host.get_id())
            listened = map(str, self._guarded.host.get_addrs())
            self._listened = [each for address in listened for each in expanded(address)]
            for each in services:
                nursery.start_soon(each.run)
            begun.set_result(None)
            await trio.sleep_forever()

    def _services(self, order: PeerOrder) -> Sequence[CircuitsOfOurs | Punching | Relay]:
        """What was asked for beside the rest, to be run."""
        found: list[CircuitsOfOurs | Punching | Relay] = []
        if order.doors is not None and (order.public or order.relay):
            AutoNat(self._guest, self._guarded, order.doors.tries)
        if order.doors is not None and order.relay:
            found.append(Relay(self._guarded, order.doors))
        elif order.public:
            relays, unreached = order.bootstrap, order.unreached
            self._circuits = CircuitsOfOurs(self._guarded, relays, unreached, self._dial)
            found.append(self._circuits)
            if order.doors is not None:
                ids = [PeerID.from_base58(peer_id_in(each)) for each in relays]
                self._punching = Punching(self._guarded, ids, order.doors.tries)
                found.append(self._punching)
        return found

    def _over(self, living: asyncio.Task[Any]) -> None:
        """The host has ended, and trio perhaps."""
        if not living.cancelled() and (error := living.exception()) is not None:
            first = _first(error)
            log.error("libp2p ended", why=f"{type(first).__name__}: {first}".splitlines()[0][:300])
        self.died.set()

    async def _dial(self, address: str) -> None:
        """Under trio. Raises whatever py-libp2p raises."""
        place = parsed(address)
        if place is None:
            raise ValueError("not an address")
        (peer, there), swarm = place, self._guarded.swarm
        swarm.unblock_peer(peer)  # else it would not be dialled for a minute after a failure
        swarm.peerstore.clear_addrs(peer)
        swarm.peerstore.add_addrs(peer, [there], ADDRESS_SECONDS)
        if self._punching is not None and self._punching.is_relay(peer):
            await self._punching.dial_relay(peer, there)
        else:
            await self._guarded.host.connect(PeerInfo(peer, [there]))


def _first(error: BaseException) -> BaseException:
    """Out of the groups that trio's nurseries put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
