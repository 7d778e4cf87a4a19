"""A node of hivemind's DHT: its three messages, spoken and answered, with limits on all sides.

hivemind's own DHTNode holds and returns whatever it is given, ends a search at the first answer
that claims to be new enough, drops a replica's whole dictionary for one expired record and counts
a copy at home as success. So only its messages and its routing table are used. Here a peer's
place in the DHT follows from its id, values are validated one by one on every path, and searches
ask the peers of our own table first, whatever others say is nearer. No caches, no handing over.
Invariants: every call ends; what is returned or held has passed the validator.
Source: Kademlia (Maymounkov and Mazieres, 2002); network.md sections 1 and 4.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from statistics import median
from typing import Any, Final

from swarmnode.network.beside import Beside
from swarmnode.network.dht_records import (
    KEY_BYTES,
    AnnouncementValidator,
    RecordStore,
    Refusal,
    key_id,
)
from swarmnode.network.dht_replica import KEYS_PER_MESSAGE_MAX, Replica, records_in
from swarmnode.network.dht_search import Search
from swarmnode.network.dht_table import BUCKET_SIZE, Neighbours, node_id_of
from swarmnode.network.doors import Doors
from swarmnode.network.light_hivemind import (
    CONNECTION_ERRORS,
    MSGPackSerializer,
    PeerID,
    dht_messages,
)

MESSAGE_SECONDS: Final = 5.0
SEARCH_SECONDS: Final = 12.0

_SPARE_REPLICAS: Final = 3
_REPLICAS_READ: Final = 3
_WAVES_MAX: Final = 5
_CONCURRENT_MESSAGES: Final = 32
_PINGS_AT_ONCE: Final = 32
_CLOCKS_REMEMBERED: Final = 64
_ID_BYTES: Final = (34, 38)
"""Of the hash of a long key, and of an Ed25519 key."""

_Message = Any


class DhtNode:
    """Stores and finds records; with `serve`, a replica for others. Asks nobody after `died`."""

    def __init__(
        self,
        p2p: Any,
        validator: AnnouncementValidator,
        held: RecordStore,
        clock: Callable[[], float],
        replicas: int,
        died: asyncio.Event,
        rng: Random,
        doors: Doors | None = None,
    ) -> None:
        self.held: Final = held
        self._bytes_in = 0
        self._bytes_out = 0
        self._p2p = p2p
        self._id = node_id_of(p2p.peer_id)
        self._validator = validator
        self._clock = clock
        self._replicas = replicas
        self._died = died
        self._rng = rng
        self._doors = doors
        self._width = replicas + _SPARE_REPLICAS
        self._replica: Replica | None = None
        self._info = dht_messages.NodeInfo()
        self._neighbours = Neighbours(p2p.peer_id)
        self._messages = asyncio.Semaphore(_CONCURRENT_MESSAGES)
        self._clocks: OrderedDict[Any, float] = OrderedDict()
        self._beside = Beside()

    async def serve(self) -> None:
        """From now on answer others and be in their tables. Raises TimeoutError."""
        self._info = dht_messages.NodeInfo(node_id=self._id.to_bytes())
        self._replica = Replica(
            self._info,
            self._validator,
            self.held,
            self._clock,
            self._nearest,
            self._met,
            self._doors,
        )
        await self._replica.register(self._p2p)

    async def close(self) -> None:
        await self._beside.end()

    @property
    def neighbours(self) -> int:
        """Peers in the routing table."""
        return len(self._neighbours)

    @property
    def bytes_in(self) -> int:
        """Bytes of messages received, without what libp2p adds."""
        return self._bytes_in + (self._replica.bytes_in if self._replica else 0)

    @property
    def bytes_out(self) -> int:
        """Bytes of messages sent, without what libp2p adds."""
        return self._bytes_out + (self._replica.bytes_out if self._replica else 0)

    @property
    def clock_offset(self) -> float | None:
        """Median of what the clocks of pinged peers are ahead of ours, in seconds."""
        return median(self._clocks.values()) if self._clocks else None

    async def store(self, key: str, subkey: str, value: bytes, expires: float) -> int:
        """Number of other peers that hold the record now; 0 where it has expired.

        Raises ValueError for a record that any replica would refuse.
        """
        key_bytes = key_id(key)
        refusal = self._validator.refusal(key_bytes, subkey, value, expires)
        if refusal is Refusal.EXPIRED:
            return 0
        if refusal is not None:
            raise ValueError(f"a record that nobody would hold: {refusal.value}")
        place = int.from_bytes(key_bytes)
        [search] = await self._search([place])
        candidates = search.nearest_that_answered()
        distances = [node_id_of(peer) ^ place for peer in candidates[: self._replicas]]
        if self._replica is not None and (
            len(distances) < self._replicas or self._id ^ place < max(distances)
        ):
            self.held.put(key_bytes, subkey, value, expires)
        request = dht_messages.StoreRequest(
            keys=[key_bytes],
            subkeys=[MSGPackSerializer.dumps(subkey)],
            values=[MSGPackSerializer.dumps(value)],
            expiration_time=[expires],
            in_cache=[False],
            peer=self._info,
        )
        return await self._store_on(candidates, request)

    async def _store_on(self, candidates: Sequence[Any], request: _Message) -> int:
        acknowledged = 0
        while candidates and acknowledged < self._replicas:
            wanted = self._replicas - acknowledged
            asked, candidates = candidates[:wanted], candidates[wanted:]
            answers = await asyncio.gather(*(self._ask_to_store(peer, request) for peer in asked))
            acknowledged += sum(answers)
        return acknowledged

    async def get(self, keys: Sequence[str]) -> Mapping[str, Mapping[str, bytes]]:
        """Valid records by key and subkey, merged from replicas; the latest expiry wins.

        Three of a key's replicas are read: more would send the same dictionary again, fewer could
        be one that hides something.
        """
        ids = [key_id(key) for key in keys]
        searches = await self._search([int.from_bytes(each) for each in ids], _REPLICAS_READ)
        await asyncio.gather(*map(self._read_rest, searches))
        for key, search in zip(ids, searches, strict=True):
            for subkey, record in self.held.get(key).items():
                search.find(subkey, record)
        return {
            key: {subkey: record.value for subkey, record in search.records.items()}
            for key, search in zip(keys, searches, strict=True)
        }

    async def _read_rest(self, search: Search[Any]) -> None:
        unread = search.unread(self._replicas)
        search.copies += len(unread)
        await asyncio.gather(*(self._visit(peer, [search]) for peer in unread))

    async def ping(self, peer: Any) -> bool:
        """Whether the peer's DHT node answers; one that doesn't leaves the table."""
        request = dht_messages.PingRequest(peer=self._info, validate=False)
        asked = self._clock()
        answer = await self._ask(peer, "rpc_ping", request, dht_messages.PingResponse)
        if answer is None:
            return False
        if answer.dht_time:
            self._clocks[peer] = answer.dht_time - (asked + self._clock()) / 2
            if len(self._clocks) > _CLOCKS_REMEMBERED:
                self._clocks.popitem(last=False)
        return True

    def take_over(self, records: Iterable[tuple[bytes, str, bytes, float]]) -> None:
        """Hold records that an earlier node held, as far as they are still valid."""
        for key, subkey, value, expires in records:
            if self._validator.refusal(key, subkey, value, expires) is None:
                self.held.put(key, subkey, value, expires)

    async def fill_table(self) -> None:
        """Learn our own neighbours."""
        await self._search([int(self._id)])

    async def _search(self, places: Sequence[int], copies: int = 0) -> list[Search[Any]]:
        searches = []
        for place in places:
            own = self._nearest(place)
            searches.append(Search(place, own, self._width, node_id_of, copies))
        deadline = asyncio.get_running_loop().time() + SEARCH_SECONDS
        for _ in range(_WAVES_MAX):
            plan: dict[Any, list[Search[Any]]] = {}
            for search in searches:
                for peer in self._some_replicas_first(search.next()):
                    plan.setdefault(peer, []).append(search)
            if not plan or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.gather(*(self._visit(peer, wanted) for peer, wanted in plan.items()))
        return searches

    def _some_replicas_first(self, nearest: list[Any]) -> list[Any]:
        # So that not all readers read from the same three.
        replicas = nearest[: self._replicas]
        self._rng.shuffle(replicas)
        return [*replicas, *nearest[self._replicas :]]

    async def _visit(self, peer: Any, searches: Sequence[Search[Any]]) -> None:
        for start in range(0, len(searches), KEYS_PER_MESSAGE_MAX):
            part = searches[start : start + KEYS_PER_MESSAGE_MAX]
            keys = [search.place_for(peer).to_bytes(KEY_BYTES) for search in part]
            request = dht_messages.FindRequest(keys=keys, peer=self._info)
            answer = await self._ask(peer, "rpc_find", request, dht_messages.FindResponse)
            if answer is None or len(answer.results) != len(part):
                for search in part:
                    search.failed(peer)
                return
            for search, key, result in zip(part, keys, answer.results, strict=True):
                search.answered.add(peer)
                search.learn(self._named(result))
                async for subkey, record in records_in(result, key, self._validator):
                    search.find(subkey, record)

    def _named(self, result: _Message) -> list[Any]:
        # Long ids are left out unread: base58 takes the square of their length.
        ids = [each for each in result.nearest_peer_ids[:BUCKET_SIZE] if len(each) in _ID_BYTES]
        return [peer for peer in map(PeerID, ids) if peer != self._p2p.peer_id]

    async def _ask_to_store(self, peer: Any, request: _Message) -> bool:
        answer = await self._ask(peer, "rpc_store", request, dht_messages.StoreResponse)
        return answer is not None and list(answer.store_ok) == [True]

    async def _ask(self, peer: Any, name: str, request: _Message, response: Any) -> Any:
        """The answer, or None; either way the routing table learns from it."""
        if self._died.is_set():
            return None
        ask = self._p2p.call_protobuf_handler
        try:
            async with self._messages, asyncio.timeout(MESSAGE_SECONDS):
                self._bytes_out += request.ByteSize()
                answer = await ask(peer, f"DHTProtocol.{name}", request, response)
        except (*CONNECTION_ERRORS, TimeoutError, OSError, EOFError, ValueError, TypeError):
            self._neighbours.forget(peer)
            return None
        self._bytes_in += answer.ByteSize()
        if answer.peer.node_id:
            self._met(peer)
        return answer

    def _nearest(self, place: int) -> list[Any]:
        return self._neighbours.nearest(place, self._width)

    def _met(self, peer: Any) -> None:
        questionable = self._neighbours.met(peer)
        if questionable is not None and len(self._beside) < _PINGS_AT_ONCE:
            self._beside.begin(self.ping(questionable))
