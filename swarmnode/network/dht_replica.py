"""What a node of the DHT answers to others: hivemind's three messages, each with its limits.

Whole dictionaries and values without a subkey are never held; nothing is believed but what the
validator passed. Asks nobody anything. Source: network.md section 1, security.md section 3.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from swarmnode.network.dht_records import (
    KEY_BYTES,
    AnnouncementValidator,
    Record,
    RecordStore,
    Refusal,
)
from swarmnode.network.doors import Doors
from swarmnode.network.light_hivemind import (
    DictionaryDHTValue,
    MSGPackSerializer,
    dht_messages,
    load_value,
)

KEYS_PER_MESSAGE_MAX: Final = 8
"""Keeps answers below the 4 MiB over which hivemind never answers."""
RECORDS_PER_MESSAGE_MAX: Final = 64
VERIFIED_AT_ONCE: Final = 16
"""Records of an answer, until others have their turn: some 5 ms."""
BAD_RECORDS_MAX: Final = 16
"""Of one answer, beside those that a clock other than ours may take for good."""
REGISTER_SECONDS: Final = 10.0

_OF_CLOCKS: Final = (Refusal.EXPIRED, Refusal.TOO_LATE, Refusal.FUTURE)

_Message = Any


def valid_record(
    validator: AnnouncementValidator, key: bytes, subkey: Any, packed: bytes, expires: float
) -> Record | None:
    """The record that a peer stores or returns, None where it is none that may be held."""
    judged = _judged(validator, key, subkey, packed, expires)
    return judged if isinstance(judged, Record) else None


def _judged(
    validator: AnnouncementValidator, key: bytes, subkey: Any, packed: bytes, expires: float
) -> Record | Refusal:
    try:
        value = load_value(packed)
    except Exception:  # whatever a decoder makes of a stranger's bytes
        return Refusal.WIRE
    if not (isinstance(value, bytes) and isinstance(subkey, str)):
        return Refusal.WIRE
    return validator.refusal(key, subkey, value, expires) or Record(value, expires)


async def records_in(
    result: _Message, key: bytes, validator: AnnouncementValidator
) -> AsyncIterator[tuple[str, Record]]:
    """The valid records that a replica answers with; of a liar's answer few or none.

    A replica verifies what it holds, so that one bad record too many ends the reading; and nobody
    can keep us at verifying signatures without a pause.
    """
    if result.type != dht_messages.FOUND_DICTIONARY:
        return
    try:
        dictionary = load_value(result.value)
    except Exception:  # whatever a decoder makes of a stranger's bytes
        return
    if not isinstance(dictionary, DictionaryDHTValue):
        return
    bad = 0
    for number, (subkey, (packed, expires)) in enumerate(dictionary.data.items()):
        if number % VERIFIED_AT_ONCE == VERIFIED_AT_ONCE - 1:
            await asyncio.sleep(0)
        judged = _judged(validator, key, subkey, packed, expires)
        if isinstance(judged, Record):
            yield subkey, judged
        elif judged not in _OF_CLOCKS and (bad := bad + 1) == BAD_RECORDS_MAX:
            return


class Replica:
    """Holds records for others once it is registered.

    `nearest` gives peers of the routing table near a place; `met` is told of every peer that takes
    part in the DHT and asks.
    """

    def __init__(
        self,
        info: Any,
        validator: AnnouncementValidator,
        held: RecordStore,
        clock: Callable[[], float],
        nearest: Callable[[int], Sequence[Any]],
        met: Callable[[Any], None],
        doors: Doors | None,
    ) -> None:
        self.info: Final = info
        self.bytes_in = 0
        self.bytes_out = 0
        self._validator = validator
        self._held = held
        self._clock = clock
        self._nearest = nearest
        self._met = met
        self._doors = doors

    async def register(self, p2p: Any) -> None:
        """Have the messages of others brought here. Raises TimeoutError."""
        handlers = (
            ("rpc_ping", self._answer_ping, dht_messages.PingRequest),
            ("rpc_find", self._answer_find, dht_messages.FindRequest),
            ("rpc_store", self._answer_store, dht_messages.StoreRequest),
        )
        async with asyncio.timeout(REGISTER_SECONDS):
            for name, handler, request in handlers:
                await p2p.add_protobuf_handler(f"DHTProtocol.{name}", handler, request)

    # An exception of these is the peer's answer; hivemind sends its text.

    async def _answer_ping(self, request: _Message, context: Any) -> _Message:
        self._asked_by(request, context)
        now = self._clock()
        return self._sent(dht_messages.PingResponse(peer=self.info, dht_time=now, available=False))

    async def _answer_find(self, request: _Message, context: Any) -> _Message:
        if len(request.keys) > KEYS_PER_MESSAGE_MAX or any(map(_is_no_key, request.keys)):
            raise ValueError("too many keys, or none")
        asker = str(context.remote_id)
        size = sum(self._held.size_of(key) for key in request.keys)
        if self._doors is not None and not self._doors.bytes.spend(asker, float(size)):
            raise ValueError("busy")
        self._asked_by(request, context)
        response = dht_messages.FindResponse(peer=self.info)
        for key in request.keys:
            response.results.append(self._result(key, context.remote_id))
        return self._sent(response)

    def _result(self, key: bytes, asker: Any) -> _Message:
        result = dht_messages.FindResult(type=dht_messages.NOT_FOUND)
        held = self._held.get(key)
        if held:
            dictionary = DictionaryDHTValue()
            with dictionary.freeze():
                for subkey, record in held.items():
                    dictionary.store(subkey, MSGPackSerializer.dumps(record.value), record.expires)
            result.type = dht_messages.FOUND_DICTIONARY
            result.value = MSGPackSerializer.dumps(dictionary)
            result.expiration_time = dictionary.latest_expiration_time
        # Node ids follow from peer ids; nobody reads what another says they are.
        others = [peer for peer in self._nearest(int.from_bytes(key)) if peer != asker]
        result.nearest_peer_ids.extend(peer.to_bytes() for peer in others)
        return result

    async def _answer_store(self, request: _Message, context: Any) -> _Message:
        columns = (request.keys, request.subkeys, request.values, request.expiration_time)
        if len({*map(len, columns), len(request.in_cache)}) != 1:
            raise ValueError("columns of different lengths")
        if len(request.keys) > RECORDS_PER_MESSAGE_MAX:
            raise ValueError("too many records")
        asker, records = str(context.remote_id), float(len(request.keys))
        if self._doors is not None and not self._doors.records.spend(asker, records):
            raise ValueError("busy")
        self._asked_by(request, context)
        answers = [self._hold(*row) for row in zip(*columns, strict=True)]
        return self._sent(dht_messages.StoreResponse(store_ok=answers, peer=self.info))

    def _hold(self, key: bytes, packed_subkey: bytes, packed: bytes, expires: float) -> bool:
        """Hold one record under a subkey; values of other shapes, whole dictionaries, are not."""
        if _is_no_key(key):
            return False
        try:
            subkey = load_value(packed_subkey)
        except Exception:  # whatever a decoder makes of a stranger's bytes
            return False
        record = valid_record(self._validator, key, subkey, packed, expires)
        return record is not None and self._held.put(key, subkey, record.value, record.expires)

    def _asked_by(self, request: _Message, context: Any) -> None:
        self.bytes_in += request.ByteSize()
        if request.peer.node_id:
            self._met(context.remote_id)

    def _sent(self, response: _Message) -> _Message:
        self.bytes_out += response.ByteSize()
        return response


def _is_no_key(key: bytes) -> bool:
    return len(key) != KEY_BYTES
