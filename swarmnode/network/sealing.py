"""A private swarm at the edges of the network process: what leaves is sealed, what comes opened.

`SealedPeer` stands between a peer and everything that asks other peers or answers them, so that
nothing behind it knows of keys. Knows no hivemind and no announcements. A request that does not
open hears the same empty answer whatever it was, and is counted; whoever sent it, or answered
what does not open, is a stranger for a while and is not asked. Source: protocol/README.md, 14.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from swarmnode.clock import Clock
from swarmnode.network.dht_records import key_id
from swarmnode.network.peer import Handler, Heard, Peer, PeerUnreachable
from swarmproto import SEAL_BYTES, Exchange, SwarmSecret, WireError

Build = Callable[[bool], Awaitable[Peer]]

REFUSAL: Final = b""
"""The answer to whatever does not open."""
STRANGER_SECONDS: Final = 60.0
STRANGERS_REMEMBERED: Final = 4096


class Sealing:
    """One member's secret, whom it found to be a stranger, and how often; outlives its peers."""

    def __init__(self, secret: SwarmSecret, clock: Clock) -> None:
        self.secret: Final = secret
        self._clock = clock
        self._strangers: OrderedDict[str, float] = OrderedDict()
        self.counts: Counter[str] = Counter()
        """What did not open: PROTOCOL/request/REASON, PROTOCOL/response/REASON, record/REASON."""

    def is_stranger(self, peer_id: str) -> bool:
        """Whether this peer has lately shown that it is no member."""
        return self._strangers.get(peer_id, 0.0) > self._clock.now()

    def opened_request(self, exchange: Exchange, sealed: bytes) -> bytes | None:
        """The asker's request, None where there is nothing to answer."""
        try:
            request = self.secret.open_request(exchange, sealed)
        except WireError as error:
            self._count(f"{exchange.protocol}/request", error, exchange.asker)
            return None
        self._strangers.pop(exchange.asker, None)
        return request

    def opened_response(self, exchange: Exchange, sealed_request: bytes, sealed: bytes) -> bytes:
        """The answerer's response. Raises PeerUnreachable where it is no member's."""
        try:
            response = self.secret.open_response(exchange, sealed_request, sealed)
        except WireError as error:
            self._count(f"{exchange.protocol}/response", error, exchange.answerer)
            raise PeerUnreachable("the peer is no member of this private swarm") from None
        self._strangers.pop(exchange.answerer, None)
        return response

    def opened_record(self, place_id: bytes, subkey: str, sealed: bytes) -> bytes | None:
        """What lies in the DHT, None where it is nobody's of this swarm."""
        try:
            return self.secret.open_record(place_id, subkey, sealed)
        except WireError as error:
            self.counts[f"record/{error.reason.value}"] += 1
            return None

    def around(self, build: Build) -> Build:
        """Builds the same peers, sealed."""

        async def build_sealed(server: bool) -> Peer:
            return SealedPeer(await build(server), self)

        return build_sealed

    def _count(self, where: str, error: WireError, peer_id: str) -> None:
        self.counts[f"{where}/{error.reason.value}"] += 1
        self._strangers[peer_id] = self._clock.now() + STRANGER_SECONDS
        self._strangers.move_to_end(peer_id)
        while len(self._strangers) > STRANGERS_REMEMBERED:
            self._strangers.popitem(last=False)


class SealedPeer:
    """See Peer: the same one, whose records, requests and answers only members can read."""

    def __init__(self, peer: Peer, sealing: Sealing) -> None:
        self._peer = peer
        self._sealing = sealing

    @property
    def peer_id(self) -> str:
        """See Peer."""
        return self._peer.peer_id

    @property
    def addresses(self) -> Sequence[str]:
        """See Peer."""
        return self._peer.addresses

    @property
    def died(self) -> asyncio.Event:
        """See Peer."""
        return self._peer.died

    @property
    def clock_offset(self) -> float | None:
        """See Peer."""
        return self._peer.clock_offset

    @property
    def bytes_in(self) -> int:
        """See Peer; as sealed."""
        return self._peer.bytes_in

    @property
    def bytes_out(self) -> int:
        """See Peer; as sealed."""
        return self._peer.bytes_out

    @property
    def has_dht(self) -> bool:
        """See Swarm."""
        return self._peer.has_dht

    async def store(self, key: str, subkey: str, value: bytes, expires: float) -> int:
        """See Swarm. Raises WireError for a value of more than 996 bytes."""
        secret = self._sealing.secret
        place = secret.place(key)
        own = secret.subkey(key_id(place), subkey)
        sealed = secret.seal_record(key_id(place), own, value)
        return await self._peer.store(place, own, sealed, expires)

    async def get(self, keys: Sequence[str]) -> Mapping[str, Mapping[str, bytes]]:
        """See Swarm; the subkeys are those of their places."""
        places = {key: self._sealing.secret.place(key) for key in keys}
        found = await self._peer.get(list(places.values()))
        return {key: self._opened(place, found.get(place, {})) for key, place in places.items()}

    async def call(
        self,
        peer_id: str,
        protocol: str,
        request: bytes,
        response_limit: int,
        timeout_seconds: float,
    ) -> bytes:
        """See Swarm."""
        exchange = Exchange(protocol, self._peer.peer_id, peer_id)
        sealed = self._sealing.secret.seal_request(exchange, request)
        limit = response_limit + SEAL_BYTES
        answer = await self._peer.call(peer_id, protocol, sealed, limit, timeout_seconds)
        return self._sealing.opened_response(exchange, sealed, answer)

    def serve(self, protocol: str, handler: Handler, request_limit: int) -> None:
        """See Peer."""

        async def answer(peer_id: str, sealed: bytes) -> bytes:
            exchange = Exchange(protocol, peer_id, self._peer.peer_id)
            request = self._sealing.opened_request(exchange, sealed)
            if request is None:
                return REFUSAL
            response = await handler(peer_id, request)
            return self._sealing.secret.seal_response(exchange, sealed, response)

        self._peer.serve(protocol, answer, request_limit + SEAL_BYTES)

    async def publish(self, topic: str, data: bytes) -> int:
        """See Peer. Raises WireError for a value of more than 996 bytes."""
        secret = self._sealing.secret
        place = secret.place(topic)
        own = secret.subkey(key_id(place), self._peer.peer_id)
        return await self._peer.publish(place, secret.seal_record(key_id(place), own, data))

    def listen(self, topic: str, heard: Heard | None) -> None:
        """See Peer."""
        secret = self._sealing.secret
        place = secret.place(topic)

        def opened(origin: str, sealed: bytes) -> bool:
            subkey = secret.subkey(key_id(place), origin)
            data = self._sealing.opened_record(key_id(place), subkey, sealed)
            # What does not open is as empty to what is behind us: nobody's announcement.
            return heard is not None and heard(origin, data or b"")

        self._peer.listen(place, None if heard is None else opened)

    async def connected(self) -> Sequence[tuple[str, str]]:
        """See Swarm."""
        return await self._peer.connected()

    async def connect(self, address: str) -> bool:
        """See Peer."""
        return await self._peer.connect(address)

    async def disconnect(self, peer_id: str) -> None:
        """See Peer."""
        await self._peer.disconnect(peer_id)

    async def ping(self, peer_id: str) -> bool:
        """See Peer."""
        return await self._peer.ping(peer_id)

    def export_records(self) -> Any:
        """See Peer; as sealed."""
        return self._peer.export_records()

    def import_records(self, records: Any) -> None:
        """See Peer."""
        self._peer.import_records(records)

    async def close(self) -> None:
        """See Peer."""
        await self._peer.close()

    def _opened(self, place: str, found: Mapping[str, bytes]) -> dict[str, bytes]:
        place_id = key_id(place)
        opened = {
            subkey: self._sealing.opened_record(place_id, subkey, sealed)
            for subkey, sealed in found.items()
        }
        return {subkey: value for subkey, value in opened.items() if value is not None}
