"""Decoding never allocates more than 8 x input + 1 MiB, whatever it is given."""

import contextlib
import json
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import swarmproto as wire
from swarmproto.signing import sign

FOLDER = Path(__file__).parents[2] / "protocol" / "vectors"
PRIVATE_KEY = bytes(range(32))
SWARM_ID = b"\x05" * 32
ENVELOPES = {
    "open_header": (b"SWNB", b"swarmnode/1/bundle-header"),
    "open_announcement": (b"SWNA", b"swarmnode/1/announcement"),
}
OPERATIONS = [
    "decode_group", "open_header", "open_announcement", "decode_rules",
    "decode_discover_request", "decode_discover_response", "decode_fetch_request",
    "decode_fetch_response", "decode_offer_request", "decode_offer_response",
    "decode_swarm_request", "decode_swarm_response",
]  # fmt: skip


def _text(data: bytes) -> bytes:
    return struct.pack(">BI", 0xDB, len(data)) + data


def _keyed_maps(count: int) -> bytes:
    return struct.pack(">BI", 0xDD, count) + b"".join(
        b"\x81\xa4" + struct.pack(">I", 0x61616161 + number) + b"\x90" for number in range(count)
    )


BOMBS: dict[str, bytes] = {
    "a megabyte of empty maps": b"\xdd\x00\x10\x00\x00" + b"\x80" * 2**20,
    "a megabyte of empty arrays": b"\xdd\x00\x10\x00\x00" + b"\x90" * 2**20,
    "a megabyte of array heads": b"\x91" * 2**20,
    "a megabyte of map heads": b"\x81\xa1a" * 349_525,
    "an array of 2**32-1": b"\xdd\xff\xff\xff\xff",
    "a map of 2**32-1": b"\xdf\xff\xff\xff\xff",
    "a text of 2**32-1 bytes": b"\xdb\xff\xff\xff\xff",
    "binary of 2**32-1 bytes": b"\xc6\xff\xff\xff\xff",
    "as many empty maps as pass": b"\x81\xa1z\xdd\x00\x00\x0f\xfd" + b"\x80" * 4093,
    "as many maps with a key each as pass": b"\x81\xa1z" + _keyed_maps(1364),
    "few empty maps": b"\x81\xa1z\xdc\x01\xfc" + b"\x80" * 508,
    "a text that widens late": b"\x81\xa1z" + _text(b"a" * 262_000 + "\U0001f600".encode()),
    "a text that widens twice": b"\x81\xa1z"
    + _text(b"a" * 130_000 + "Ж".encode() + b"a" * 130_000 + "\U0001f600".encode()),
    "two megabytes of text that widens": b"\x81\xa1z"
    + _text(b"a" * 2**20 + "Ж".encode() + b"a" * 2**20 + "\U0001f600".encode()),
    "a long key": b"\x81" + _text(b"k" * 262_000) + b"\xc0",
    "two megabytes of binary": b"\x81\xa1z" + struct.pack(">BI", 0xC6, 2**21) + bytes(2**21),
    "nothing": b"",
}


@pytest.fixture(autouse=True)
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def _peak(decode: Callable[..., Any], *arguments: bytes) -> int:
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    with contextlib.suppress(wire.WireError):
        decode(*arguments)
    return tracemalloc.get_traced_memory()[1] - before


def _sealed(operation: str, body: bytes) -> bytes:
    magic, domain = ENVELOPES[operation]
    prefix = magic + b"\x01" + SWARM_ID + wire.public_key_of(PRIVATE_KEY)
    return prefix + sign(PRIVATE_KEY, domain, prefix, body) + body


@pytest.mark.parametrize("operation", OPERATIONS)
def test_bombs_stay_within_the_bound(operation: str) -> None:
    decode = getattr(wire, operation)
    for name, bomb in BOMBS.items():
        if operation in ENVELOPES:
            data = _sealed(operation, bomb)
            peak = _peak(decode, data, SWARM_ID)
        else:
            data = bomb
            peak = _peak(decode, data)
        assert peak <= 8 * len(data) + 2**20, name


def test_the_largest_valid_group_stays_within_the_bound() -> None:
    wide = "a" * 8000 + "Ж" + "a" * 7900 + "\U0001f600"
    completion = wire.CompletionRecord(wide, "stop", 50, wire.pack_logprobs([-1.0] * 50))
    group = wire.GroupRecord("a", "b", 0, bytes(32), wide, wide, (completion,) * 13)
    data = wire.encode_group(group)
    assert _peak(wire.decode_group, data) <= 8 * len(data) + 2**20


def test_opening_the_largest_sealed_message_stays_within_the_bound() -> None:
    secret, talk = wire.SwarmSecret(bytes(32)), wire.Exchange("/swarmnode/offer/1", "a", "b")
    sealed = secret.seal_request(talk, bytes(wire.RESPONSE_BYTES_MAX))
    for data in (sealed, sealed[:-1], sealed + bytes(1), sealed * 4):
        peak = _peak(lambda data: secret.open_request(talk, data), data)
        assert peak <= 8 * len(data) + 2**20


def test_every_golden_vector_stays_within_the_bound() -> None:
    for name in ("groups.json", "envelopes.json", "messages.json"):
        content = json.loads((FOLDER / name).read_text())
        for vector in content["vectors"]:
            operation = vector["operation"]
            data = b"".join(bytes.fromhex(piece) * count for piece, count in vector["input"])
            swarm = (bytes.fromhex(content["swarm_id"]),) if operation in ENVELOPES else ()
            peak = _peak(getattr(wire, operation), data, *swarm)
            assert peak <= 8 * len(data) + 2**20, vector["name"]


def test_the_measure_sees_what_plain_msgpack_would_allocate() -> None:
    import msgpack

    bomb = BOMBS["a megabyte of empty maps"][:5] + b"\x80" * 2**20
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    msgpack.unpackb(bomb)
    assert tracemalloc.get_traced_memory()[1] - before > 8 * len(bomb) + 2**20
