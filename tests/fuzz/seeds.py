"""What the fuzzing starts from: the protocol's vectors, a few texts, and the corpus in the repo."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgpack

import swarmproto as wire
from swarmnode.keys import peer_id_of
from swarmnode.network.lan_messages import Language, service_type
from swarmnode.network.light_hivemind import MSGPackSerializer
from tests.fuzz.targets import ANSWERS, DECODERS, KEY, TASKS, _made
from tests.unit.network_made import NOW, SWARM, announcement

CORPUS: Final = Path(__file__).parent / "corpus"
"""A file for each target: inputs as hex, which the fuzzing found to reach something new."""
SEED_BYTES: Final = 4096
_VECTORS: Final = Path(__file__).parents[2] / "protocol" / "vectors"
_ENVELOPE_BODY: Final = 133
_TEXTS: Final = (
    "<answer>3/7</answer>", "<answer>", "</answer><answer>", "<answer>" * 9, "\\frac{3}{7}", "1e9",
    "nan", "-0.5", "½", "[[0, 1], [1, 2]]", "(A ∧ ¬B) → (C ↔ A)", "9" * 40, "0x1F", "yes",
)  # fmt: skip


def seeds(target: str) -> list[bytes]:
    """Valid and nearly valid inputs of a target, and its corpus."""
    return [*_SEEDS[target](), *kept(target)]


def kept(target: str) -> list[bytes]:
    """The corpus of a target."""
    path = CORPUS / f"{target}.json"
    return [bytes.fromhex(each) for each in json.loads(path.read_text("utf-8"))]


def _vectors(operation: str) -> Iterator[bytes]:
    for name in ("groups.json", "envelopes.json", "messages.json"):
        for vector in json.loads((_VECTORS / name).read_text("utf-8"))["vectors"]:
            if vector["operation"] == operation:
                data = b"".join(bytes.fromhex(piece) * count for piece, count in vector["input"])
                if len(data) <= SEED_BYTES:
                    yield data


def _codec() -> Iterator[bytes]:
    for number, operation in enumerate(DECODERS):
        yield from (bytes([number]) + data for data in _vectors(operation))


def _scan() -> Iterator[bytes]:
    for operation in DECODERS:
        yield from _vectors(operation)


def _envelope() -> Iterator[bytes]:
    for number, operation in enumerate(("open_header", "open_announcement")):
        for data in _vectors(operation):
            yield bytes([number]) + data
            yield bytes([number | 2]) + data[_ENVELOPE_BODY:]
    yield b"\x00" + _made().header_bytes
    yield b"\x01" + announcement(KEY, _made())


def _groups() -> Iterator[bytes]:
    yield from _vectors("decode_group")
    yield from _made().group_bytes


def _verifiers() -> Iterator[bytes]:
    for number, task in enumerate(TASKS):
        yield from (bytes([number]) + text.encode() for text in (*_TEXTS, ANSWERS[task][0]))


def _handlers() -> Iterator[bytes]:
    made = _made()
    yield b"\x00" + wire.encode_discover_request(wire.DiscoverRequest(SWARM, 8))
    yield b"\x01" + wire.encode_fetch_request(
        wire.FetchRequest(SWARM, wire.bundle_id(made.header_bytes), (0, 1))
    )
    offer = wire.OfferRequest(announcement(KEY, made), made.header_bytes, made.group_bytes)
    yield b"\x02" + wire.encode_offer_request(offer)
    yield b"\x03" + wire.encode_swarm_request(wire.SwarmRequest(SWARM))


def _records() -> Iterator[bytes]:
    dumps = MSGPackSerializer.dumps
    yield from map(dumps, (b"value", "subkey", ("a", (1.0, ())), {"a": 1}, None))
    items = [["ab", dumps(announcement(KEY, _made())), NOW + 60]]
    yield msgpack.packb(msgpack.ExtType(0x50, msgpack.packb([16, NOW + 60, items])))
    inner: bytes = msgpack.packb([])
    for levels in range(1, 12):
        inner = msgpack.packb([msgpack.ExtType(0x40, inner)])
        if levels > 6:
            yield msgpack.packb(msgpack.ExtType(0x40, inner))


def _lan() -> Iterator[bytes]:
    said = Language(service_type(SWARM, None), "1" * 16)
    yield said.question()
    yield said.answer(peer_id_of(wire.public_key_of(KEY)), "192.168.1.2", 4001)


_SEEDS: Final = {
    "lan": _lan,
    "records": _records,
    "codec": _codec,
    "scan": _scan,
    "envelope": _envelope,
    "groups": _groups,
    "verifiers": _verifiers,
    "handlers": _handlers,
}
