"""A libp2p peer on py-libp2p: requests and answers over streams, topics, no DHT.

Runs in the network process, in its event loop, with trio as a guest of it. Messages travel as
hivemind_dht.py sends them (protocol/README.md, section 10), so that either answers the other.
Invariants: every call ends within its time limit; `close` leaves nothing behind.
Source: network.md sections 2 and 3.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import structlog

from swarmnode.network.incoming import ANSWER_SECONDS, REQUEST_SECONDS, STREAMS_MAX, Incoming
from swarmnode.network.libp2p_gossip import Gossiping
from swarmnode.network.libp2p_host import GuardedHost
from swarmnode.network.libp2p_streams import (
    address_of,
    expanded,
    parsed,
    read_exactly,
    read_framed,
    write_framed,
)
from swarmnode.network.light_libp2p import PeerID, PeerInfo, trio
from swarmnode.network.peer import (
    PING_BYTES,
    PING_PROTOCOL,
    Handler,
    Heard,
    PeerUnreachable,
)
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.ports import PortsHeld, StartFailed, hold_ports
from swarmnode.network.trio_guest import Guest

START_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 10.0
BOOTSTRAP_SECONDS: Final = 5.0
"""That a start waits for bootstrap peers."""
PING_SECONDS: Final = 5.0
ADDRESS_SECONDS: Final = 120
"""That an address is kept for one dial."""
RESET_SECONDS: Final = 1.0
CLOSING_SECONDS: Final = 10.0
"""That an asker has to take the answer and close its half."""

log = structlog.get_logger()


class Libp2pPeer:
    """The Peer of peer.py; built by `start`, of no use once `died` is set."""

    def __init__(self, guest: Guest, ports: PortsHeld) -> None:
        self.died: Final = asyncio.Event()
        self.peer_id = ""
        self.addresses: Sequence[str] = ()
        self._guest = guest
        self._own_guest = False
        self._ports = ports
        self._incoming = Incoming(None)  # the doors have been passed when a protocol is known
        self._outgoing = asyncio.Semaphore(STREAMS_MAX)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._bytes_in = 0
        self._bytes_out = 0
        self._guarded: GuardedHost
        self._gossiping: Gossiping

    @classmethod
    async def start(cls, order: PeerOrder) -> Libp2pPeer:
        """Raises StartFailed; bootstrap peers that don't answer are no failure."""
        if order.public or order.relay:
            log.warning("py-libp2p has no relays and no hole punching: network.public and relay")
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
        peer = cls(guest, hold_ports(order.listen))
        try:
            await peer._begin(order)
        except TimeoutError:
            await peer.close()
            raise StartFailed(f"libp2p did not start in {START_SECONDS:.0f} seconds") from None
        except BaseException:
            await peer.close()
            raise
        dialled = [peer._spawn(peer.connect(address)) for address in order.bootstrap]
        if dialled:  # slow ones go on beside us
            await asyncio.wait(dialled, timeout=BOOTSTRAP_SECONDS)
        return peer

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
        return self._bytes_in + self._gossiping.bytes_in

    @property
    def bytes_out(self) -> int:
        """Bytes of messages sent, without what libp2p adds."""
        return self._bytes_out + self._gossiping.bytes_out

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
        self._spawn(self._guest.call(self._gossiping.listen, topic, heard))

    async def call(
        self,
        peer_id: str,
        protocol: str,
        request: bytes,
        response_limit: int,
        timeout_seconds: float,
    ) -> bytes:
        """Ask a peer; the limit is in bytes. Raises PeerUnreachable, whatever the cause."""

        async def exchange(stream: Any) -> bytes:
            await write_framed(stream, request)
            return await read_framed(stream, response_limit)

        response: bytes = await self._on_stream(peer_id, protocol, exchange, timeout_seconds)
        self._bytes_out += len(request)
        self._bytes_in += len(response)
        return response

    def serve(self, protocol: str, handler: Handler, request_limit: int) -> None:
        """Answer requests of at most so many bytes; failures of the handler reset the stream."""

        async def arrived(stream: Any) -> None:
            await self._answer(stream, handler, request_limit)

        self._guarded.host.set_stream_handler(protocol, arrived)

    async def connect(self, address: str) -> bool:
        """Dial a multiaddr that ends in /p2p/ID."""
        place = parsed(address)
        if place is None:
            return False
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._guest.call(self._dial, *place)
        except Exception:  # py-libp2p raises what it likes
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

    async def ping(self, peer_id: str) -> bool:
        """Whether its libp2p answers."""
        said = secrets.token_bytes(PING_BYTES)

        async def exchange(stream: Any) -> bytes:
            await stream.write(said)
            return await read_exactly(stream, PING_BYTES)

        with contextlib.suppress(PeerUnreachable):
            return await self._on_stream(peer_id, PING_PROTOCOL, exchange, PING_SECONDS) == said
        return False

    def export_records(self) -> None:
        """None are held."""

    def import_records(self, _records: None) -> None:
        """None are held."""

    async def close(self) -> None:
        """May be called again."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._own_guest:
            await self._guest.close()
        self._ports.release()
        self.died.set()

    async def _begin(self, order: PeerOrder) -> None:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        living = self._spawn(self._guest.call(self._live, order, begun))
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
        self._gossiping = Gossiping(self._guarded.host, order.private_key, order.doors)
        async with self._gossiping.running(), self._guarded.running(order.listen):
            self.peer_id = str(self._guarded.host.get_id())
            listened = map(str, self._guarded.host.get_addrs())
            self.addresses = [each for address in listened for each in expanded(address)]
            begun.set_result(None)
            await trio.sleep_forever()

    def _over(self, living: asyncio.Task[Any]) -> None:
        """The host has ended, and trio perhaps."""
        if not living.cancelled() and (error := living.exception()) is not None:
            first = _first(error)
            log.error("libp2p ended", why=f"{type(first).__name__}: {first}".splitlines()[0][:300])
        self.died.set()

    async def _dial(self, peer: Any, address: Any) -> None:
        """Under trio. Raises whatever py-libp2p raises."""
        swarm = self._guarded.swarm
        swarm.unblock_peer(peer)  # else it would not be dialled for a minute after a failure
        swarm.peerstore.clear_addrs(peer)
        swarm.peerstore.add_addrs(peer, [address], ADDRESS_SECONDS)
        await self._guarded.host.connect(PeerInfo(peer, [address]))

    async def _on_stream(
        self,
        peer_id: str,
        protocol: str,
        exchange: Callable[[Any], Awaitable[bytes]],
        seconds: float,
    ) -> bytes:
        """What `exchange` brings from a stream to a connected peer. Raises PeerUnreachable."""

        async def talk() -> bytes:
            peer = PeerID.from_base58(peer_id)
            if not self._guarded.swarm.get_connections(peer):
                raise ConnectionError("not connected")
            stream = await self._guarded.host.new_stream(peer, [protocol])
            try:
                answer = await exchange(stream)
                await stream.close()
            except BaseException:
                with trio.move_on_after(RESET_SECONDS, shield=True), contextlib.suppress(Exception):
                    await stream.reset()
                raise
            return answer

        try:
            async with asyncio.timeout(seconds), self._outgoing:
                return await self._guest.call(talk)
        except Exception as error:  # py-libp2p raises what it likes
            raise PeerUnreachable(f"{type(error).__name__}: {error}"[:200]) from None

    async def _answer(self, stream: Any, handler: Handler, request_limit: int) -> None:
        """One request of a stranger, under trio; what goes wrong is the host's guard's to catch."""
        peer_id = str(stream.muxed_conn.peer_id)
        if not self._incoming.arrives(peer_id, ""):
            await stream.reset()
            return
        try:
            with trio.fail_after(REQUEST_SECONDS):
                request = await read_framed(stream, request_limit)
            with trio.fail_after(ANSWER_SECONDS):
                response = await self._guest.host(handler(peer_id, request))
                await write_framed(stream, response)
            self._bytes_in += len(request)
            self._bytes_out += len(response)
            await stream.close()
        finally:
            self._incoming.ends(peer_id)
        # A half that the asker leaves open would be kept as long as the connection.
        with trio.move_on_after(CLOSING_SECONDS), contextlib.suppress(Exception):
            await stream.read(1)
        await stream.reset()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _first(error: BaseException) -> BaseException:
    """Out of the groups that trio's nurseries put around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
