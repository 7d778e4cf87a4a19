"""A libp2p peer on hivemind's p2pd: records in the DHT, requests and answers over streams, topics.

Runs in the network process, in its event loop. Messages of the four protocols travel on byte
streams, each preceded by its length (protocol/README.md, section 10), since hivemind's own
messages hang for ever above 4 MiB. Knows no bundles; of announcements only what makes a record
valid. Invariants: every call ends within its time limit, p2pd dead or not; `close` leaves nothing
behind. A client becomes a server by being built anew. Source: network.md sections 1 and 6.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from swarmnode.network.beside import Beside
from swarmnode.network.dht_messages import GuardedClient, OpenMessages
from swarmnode.network.dht_node import DhtNode
from swarmnode.network.dht_records import AnnouncementValidator, RecordStore, key_id
from swarmnode.network.doors import Doors
from swarmnode.network.hivemind_pings import Pings, opening
from swarmnode.network.incoming import (
    ANSWER_SECONDS,
    HANG_UP_SECONDS,
    REQUEST_SECONDS,
    STREAMS_MAX,
    Incoming,
)
from swarmnode.network.light_hivemind import PeerID, control_messages
from swarmnode.network.p2pd import Daemon
from swarmnode.network.p2pd_topics import Topics
from swarmnode.network.peer import Handler, Heard, PeerUnreachable
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.sealed_dht import SealedMessages
from swarmnode.network.shards import keys_of, subkey_of
from swarmnode.network.streams import parsed, read_framed, readable, write_framed
from swarmproto import Announcement, SwarmSecret

CONNECT_SECONDS: Final = 10.0


def _key_ids(announcement: Announcement, secret: SwarmSecret | None) -> frozenset[bytes]:
    keys = keys_of(announcement)
    return frozenset(key_id(key if secret is None else secret.place(key)) for key in keys)


def _validator(order: PeerOrder) -> AnnouncementValidator:
    secret = order.sealing.secret if order.sealing else None
    key_ids = partial(_key_ids, secret=secret)
    return AnnouncementValidator(order.swarm_id, key_ids, subkey_of, time.time, secret)


def _messages(daemon: Daemon, order: PeerOrder) -> OpenMessages | SealedMessages:
    peer_id, client = daemon.p2p.peer_id, GuardedClient(daemon.p2p._client, order.doors)
    if order.sealing is None:
        return OpenMessages(peer_id, client)
    return SealedMessages(peer_id, client, order.sealing)


class HivemindPeer:
    """The Peer of peer.py; built by `start`, of no use once `died` is set."""

    def __init__(self, daemon: Daemon, dht: DhtNode, doors: Doors | None) -> None:
        self.peer_id: Final = str(daemon.p2p.peer_id)
        self.died: Final = daemon.died
        self._daemon = daemon
        self._dht = dht
        self._topics = Topics(daemon)
        self._pings = Pings(daemon, dht)
        self._outgoing = asyncio.Semaphore(STREAMS_MAX)
        self._incoming = Incoming(doors)
        self._beside = Beside()
        self._bytes_in = 0
        self._bytes_out = 0

    @classmethod
    async def start(cls, order: PeerOrder) -> HivemindPeer:
        """Raises StartFailed; bootstrap peers that don't answer are no failure."""
        daemon = await Daemon.start(order)
        try:
            held, validator, messages = (
                RecordStore(time.time),
                _validator(order),
                _messages(daemon, order),
            )
            dht = DhtNode(
                messages,
                validator,
                held,
                time.time,
                order.replicas,
                daemon.died,
                Random(),
                order.doors,
            )
            if not order.client:
                await dht.serve()
            await daemon.identify()
            peer = cls(daemon, dht, order.doors)
        except BaseException:
            await daemon.close()
            raise
        await peer._beside.dial(peer.connect, order.bootstrap)
        return peer

    @property
    def has_dht(self) -> bool:
        """True."""
        return True

    @property
    def addresses(self) -> Sequence[str]:
        """See Peer; those through relays come and go."""
        found = (readable(address, self.peer_id) for address in self._daemon.addresses)
        return [each for each in found if each]

    @property
    def process_id(self) -> int:
        """Of p2pd."""
        return self._daemon.process_id

    @property
    def clock_offset(self) -> float | None:
        """Median of peers' clocks minus ours in seconds, None before any answered a ping."""
        return self._dht.clock_offset

    @property
    def bytes_in(self) -> int:
        """Bytes of messages received, without what libp2p adds."""
        return self._bytes_in + self._dht.bytes_in + self._topics.bytes_in

    @property
    def bytes_out(self) -> int:
        """Bytes of messages sent, without what libp2p adds."""
        return self._bytes_out + self._dht.bytes_out + self._topics.bytes_out

    async def store(self, key: str, subkey: str, value: bytes, expires: float) -> int:
        """See DhtNode.store."""
        return await self._dht.store(key, subkey, value, expires)

    async def get(self, keys: Sequence[str]) -> Mapping[str, Mapping[str, bytes]]:
        """See DhtNode.get."""
        return await self._dht.get(keys)

    async def publish(self, topic: str, data: bytes) -> int:
        """See Topics."""
        return await self._topics.publish(topic, data)

    def listen(self, topic: str, heard: Heard | None) -> None:
        """See Topics."""
        self._topics.listen(topic, heard)

    async def ping(self, peer_id: str) -> bool:
        """See Pings."""
        return await self._pings.ping(peer_id)

    async def call(
        self,
        peer_id: str,
        protocol: str,
        request: bytes,
        response_limit: int,
        timeout_seconds: float,
    ) -> bytes:
        """Ask a peer; the limit is in bytes. Raises PeerUnreachable, whatever the cause."""
        try:
            stream = opening(PeerID.from_base58(peer_id), protocol)
            async with (
                asyncio.timeout(timeout_seconds),
                self._outgoing,
                self._daemon.conversation(stream, timeout_seconds) as (_, reader, writer),
            ):
                await write_framed(writer, request)
                response = await read_framed(reader, response_limit)
        except (OSError, TimeoutError, EOFError, ValueError) as error:
            raise PeerUnreachable(f"{type(error).__name__}: {error}"[:200]) from None
        self._bytes_out += len(request)
        self._bytes_in += len(response)
        return response

    def serve(self, protocol: str, handler: Handler, request_limit: int) -> None:
        """Answer requests of at most so many bytes; failures of the handler close the stream."""

        async def arrived(info: Any, reader: Any, writer: Any) -> None:
            peer_id = str(info.peer_id)
            if not self._incoming.arrives(peer_id, readable(info.addr.to_bytes(), peer_id)):
                writer.transport.abort()
                return
            self._beside.begin(self._answer(peer_id, reader, writer, handler, request_limit))

        self._beside.begin(self._daemon.add_stream_handler(protocol, arrived))

    async def _answer(
        self,
        peer_id: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handler: Handler,
        request_limit: int,
    ) -> None:
        answered = False
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await read_framed(reader, request_limit)
            async with asyncio.timeout(ANSWER_SECONDS):
                response = await handler(peer_id, request)
                await write_framed(writer, response)
            # Over QUIC p2pd drops what the peer has not taken yet when we hang up first.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HANG_UP_SECONDS):
                    await reader.read(1)
            self._bytes_in += len(request)
            self._bytes_out += len(response)
            answered = True
        except Exception:  # a stranger's request or connection must not end anything of ours
            return
        finally:
            writer.close() if answered else writer.transport.abort()
            self._incoming.ends(peer_id)

    async def connect(self, address: str) -> bool:
        """Dial a multiaddr that ends in /p2p/ID, and get to know its DHT node."""
        place = parsed(address)
        if place is None:
            return False
        peer, where = place
        request = control_messages.Request(
            type=control_messages.Request.CONNECT,
            connect=control_messages.ConnectRequest(
                peer=peer.to_bytes(), addrs=[where], timeout=int(CONNECT_SECONDS)
            ),
        )
        try:
            await self._daemon.ask(request, CONNECT_SECONDS)
        except (OSError, TimeoutError, EOFError):
            return False
        alone = not self._dht.neighbours
        if await self._pings.ping_dht(peer) and alone:
            self._beside.begin(self._dht.fill_table())
        return True

    async def disconnect(self, peer_id: str) -> None:
        """Hang up; no failure if there is nothing to hang up."""
        with contextlib.suppress(OSError, TimeoutError, EOFError, ValueError):
            peer = PeerID.from_base58(peer_id).to_bytes()
            request = control_messages.Request(
                type=control_messages.Request.DISCONNECT,
                disconnect=control_messages.DisconnectRequest(peer=peer),
            )
            await self._daemon.ask(request)

    async def connected(self) -> Sequence[tuple[str, str]]:
        """Id and address of each connected peer; none where p2pd doesn't answer."""
        request = control_messages.Request(type=control_messages.Request.LIST_PEERS)
        try:
            answer = await self._daemon.ask(request)
        except (OSError, TimeoutError, EOFError):
            return []
        found = []
        for each in answer.peers:
            peer_id = str(PeerID(each.id))
            found.append((peer_id, next((readable(a, peer_id) for a in each.addrs), "")))
        return found

    def export_records(self) -> list[tuple[bytes, str, bytes, float]]:
        """Key id, subkey, value and expiry of each record that we hold for others."""
        return [(key, subkey, *record) for key, subkey, record in self._dht.held.records()]

    def import_records(self, records: Iterable[tuple[bytes, str, bytes, float]]) -> None:
        """Hold what an earlier peer held, as far as it is still valid."""
        self._dht.take_over(records)

    async def close(self) -> None:
        """May be called again."""
        await self._beside.end()
        await self._topics.close()
        await self._dht.close()
        await self._daemon.close()
