"""Private swarms on the wire: what follows from a key, what opens under it, and what never does."""

from __future__ import annotations

import json
import random
import traceback
from pathlib import Path
from typing import Any

import pytest

import swarmproto as wire
from swarmproto import Exchange, SwarmSecret, WireError

FOLDER = Path(__file__).parents[2] / "protocol" / "vectors"
SEALING: dict[str, Any] = json.loads((FOLDER / "sealing.json").read_text(encoding="utf-8"))
VECTORS = SEALING["vectors"]
KEY = bytes.fromhex(SEALING["swarm_key"])
RULES = wire.decode_rules(bytes.fromhex(SEALING["rules"]))
SECRET = SwarmSecret(KEY)
TALK = Exchange(wire.FETCH_PROTOCOL, "asker", "answerer")
PLACE = bytes(range(20))


def opened(vector: dict[str, Any]) -> bytes:
    """What the operation of a vector gives."""
    arguments: list[Any] = [
        bytes.fromhex(each["hex"]) if isinstance(each, dict) else each
        for each in vector["arguments"]
    ]
    data = b"".join(bytes.fromhex(piece) * count for piece, count in vector["input"])
    if vector["operation"] == "open_record":
        return SECRET.open_record(arguments[0], arguments[1], data)
    exchange = Exchange(*arguments[:3])
    if vector["operation"] == "open_request":
        return SECRET.open_request(exchange, data)
    return SECRET.open_response(exchange, arguments[3], data)


def flipped(data: bytes, at: int) -> bytes:
    """With one bit changed."""
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def cut(data: bytes, at: int) -> bytes:
    """Without its end."""
    return data[:at]


@pytest.mark.parametrize(
    "vector", VECTORS, ids=[f"{vector['operation']}: {vector['name']}" for vector in VECTORS]
)
def test_a_golden_vector_opens_or_gives_its_reason(vector: dict[str, Any]) -> None:
    if "reason" not in vector:
        assert opened(vector).hex() == vector["plain"]
        return
    with pytest.raises(WireError) as caught:
        opened(vector)
    assert caught.value.reason.value == vector["reason"]


def test_what_follows_from_the_key_is_that_of_the_vectors() -> None:
    assert SECRET.commitment.hex() == SEALING["commitment"]
    for row in SEALING["places"]:
        assert SECRET.place(row["key"]) == row["place"]
    for row in SEALING["subkeys"]:
        assert SECRET.subkey(bytes.fromhex(row["place_id"]), row["public"]) == row["subkey"]
    assert wire.swarm_id(RULES, SECRET).hex() == SEALING["swarm_id"]
    assert wire.swarm_id(RULES).hex() == SEALING["public_swarm_id"]


def test_equal_rules_are_another_swarm_under_every_key_and_under_none() -> None:
    ids = {wire.swarm_id(RULES, SwarmSecret(wire.generate_swarm_key())) for _ in range(20)}
    assert len(ids | {wire.swarm_id(RULES)}) == 21
    with pytest.raises(ValueError, match="a swarm's key has 32 bytes"):
        SwarmSecret(b"short")


def test_sealing_twice_gives_other_bytes_that_open_to_the_same() -> None:
    sealed = {SECRET.seal_request(TALK, b"hello") for _ in range(100)}
    assert len(sealed) == 100
    assert {len(each) for each in sealed} == {len(b"hello") + wire.SEAL_BYTES}
    assert {SECRET.open_request(TALK, each) for each in sealed} == {b"hello"}


def test_whatever_byte_is_changed_or_cut_off_nothing_opens() -> None:
    request = SECRET.seal_request(TALK, b"q" * 30)
    response = SECRET.seal_response(TALK, request, b"r" * 30)
    record = SECRET.seal_record(PLACE, "subkey", b"a" * 30)
    for at in range(len(request)):
        for change in (flipped, cut):
            with pytest.raises(WireError, match=r"^seal: "):
                SECRET.open_request(TALK, change(request, at))
            with pytest.raises(WireError, match=r"^seal: "):
                SECRET.open_response(TALK, request, change(response, at))
            with pytest.raises(WireError, match=r"^seal: "):
                SECRET.open_record(PLACE, "subkey", change(record, at))


@pytest.mark.parametrize(
    "other",
    [
        Exchange(wire.DISCOVER_PROTOCOL, "asker", "answerer"),
        Exchange(wire.FETCH_PROTOCOL, "another", "answerer"),
        Exchange(wire.FETCH_PROTOCOL, "asker", "another"),
        Exchange(wire.FETCH_PROTOCOL, "answerer", "asker"),
        Exchange(wire.FETCH_PROTOCOL, "askera", "nswerer"),
    ],
)
def test_what_was_sealed_for_one_exchange_opens_in_no_other(other: Exchange) -> None:
    request = SECRET.seal_request(TALK, b"question")
    response = SECRET.seal_response(TALK, request, b"answer")
    assert SECRET.open_request(TALK, request) == b"question"
    assert SECRET.open_response(TALK, request, response) == b"answer"
    with pytest.raises(WireError, match=r"^seal: "):
        SECRET.open_request(other, request)
    with pytest.raises(WireError, match=r"^seal: "):
        SECRET.open_response(other, request, response)


def test_an_older_response_does_not_answer_the_same_question_asked_again() -> None:
    first, second = (SECRET.seal_request(TALK, b"question") for _ in range(2))
    response = SECRET.seal_response(TALK, first, b"answer")
    with pytest.raises(WireError, match=r"^seal: "):
        SECRET.open_response(TALK, second, response)


def test_a_request_is_no_response_and_the_reverse() -> None:
    request = SECRET.seal_request(TALK, b"question")
    response = SECRET.seal_response(TALK, request, b"answer")
    with pytest.raises(WireError, match=r"^seal: "):
        SECRET.open_response(TALK, request, request)
    with pytest.raises(WireError, match=r"^seal: "):
        SECRET.open_request(TALK, response)


def test_a_record_opens_at_its_place_and_under_its_subkey_alone() -> None:
    sealed = SECRET.seal_record(PLACE, "subkey", b"announcement")
    assert SECRET.open_record(PLACE, "subkey", sealed) == b"announcement"
    for place, subkey in ((PLACE[:-1], "subkey"), (bytes(20), "subkey"), (PLACE, "subke")):
        with pytest.raises(WireError, match=r"^seal: "):
            SECRET.open_record(place, subkey, sealed)
    assert SECRET.subkey(PLACE, "author") != SECRET.subkey(bytes(20), "author")


def test_a_sealed_announcement_has_a_kibibyte_at_most() -> None:
    largest = bytes(wire.PRIVATE_ANNOUNCEMENT_BYTES_MAX)
    assert len(SECRET.seal_record(PLACE, "", largest)) == wire.ANNOUNCEMENT_BYTES_MAX
    with pytest.raises(WireError, match=r"^oversize: "):
        SECRET.seal_record(PLACE, "", largest + b"\0")
    with pytest.raises(WireError, match=r"^oversize: "):
        SECRET.open_record(PLACE, "", bytes(wire.ANNOUNCEMENT_BYTES_MAX + 1))
    with pytest.raises(WireError, match=r"^oversize: "):
        SECRET.open_request(TALK, bytes(wire.RESPONSE_BYTES_MAX + wire.SEAL_BYTES + 1))


def test_hostile_bytes_raise_wire_errors_and_nothing_else() -> None:
    rng = random.Random("sealing")
    sealed = SECRET.seal_request(TALK, b"a question of some length")
    for _ in range(3000):
        data = bytearray(sealed if rng.random() < 0.8 else rng.randbytes(rng.randrange(80)))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        if bytes(data) != sealed:
            with pytest.raises(WireError):
                SECRET.open_request(TALK, bytes(data))


def test_a_secret_shows_nothing_of_its_key_wherever_it_turns_up() -> None:
    texts = [repr(SECRET), str(SECRET), f"{SECRET}", repr(vars(wire.sealing))]
    try:
        SECRET.open_request(TALK, bytes(40))
    except WireError as error:
        texts += [repr(error), "".join(traceback.format_exception(error))]
    try:
        SwarmSecret(KEY[:31])
    except ValueError as error:
        texts += [repr(error), "".join(traceback.format_exception(error))]
    for text in texts:
        assert KEY.hex()[:16] not in text
        assert repr(KEY)[2:20] not in text
    assert not hasattr(SECRET, "__dict__")
