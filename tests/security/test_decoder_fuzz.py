"""M5: whatever bytes come, a record or a WireError, in memory of 8 times the input and 1 MiB.

More than 30 000 mutations of valid inputs from fixed seeds, and hypothesis's own search, which also
measures memory: 1500 cases in the suite, 50 000 with `-m real`. tests/fuzz has the search that is
guided by coverage, tests/wire/test_allocation.py the worst inputs that were found by thought.
"""

import contextlib
import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import swarmproto as wire
from swarmproto.limits import MessageLimits
from swarmproto.scan import unpack
from swarmproto.signing import sign

FOLDER = Path(__file__).parents[2] / "protocol" / "vectors"
PRIVATE_KEY = bytes(range(32))
SWARM_ID = bytes.fromhex(json.loads((FOLDER / "envelopes.json").read_text())["swarm_id"])
TAGS = bytes((0x80, 0x81, 0x90, 0x91, 0xA0, 0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC7, 0xCA, 0xCB, 0xCC,
              0xCF, 0xD0, 0xD3, 0xD4, 0xD9, 0xDB, 0xDC, 0xDD, 0xDE, 0xDF, 0xFF))  # fmt: skip
CASES_PER_OPERATION = {
    "decode_group": 16_000,
    "open_header": 3000,
    "open_announcement": 3000,
    "decode_rules": 2000,
    "decode_discover_request": 1000,
    "decode_discover_response": 1000,
    "decode_fetch_request": 1000,
    "decode_fetch_response": 1000,
    "decode_offer_request": 1000,
    "decode_offer_response": 1000,
    "decode_swarm_request": 500,
    "decode_swarm_response": 1000,
}
DOMAINS = {
    "open_header": b"swarmnode/1/bundle-header",
    "open_announcement": b"swarmnode/1/announcement",
}


def _valid_inputs(operation: str) -> list[bytes]:
    inputs = []
    for name in ("groups.json", "envelopes.json", "messages.json"):
        for vector in json.loads((FOLDER / name).read_text())["vectors"]:
            if vector["operation"] == operation and "record" in vector:
                parts: list[tuple[str, int]] = vector["input"]
                inputs.append(b"".join(bytes.fromhex(piece) * count for piece, count in parts))
    return inputs


def _mutated(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        span = rng.randint(1, 12)
        match rng.randrange(6):
            case 0:
                changed[at : at + 1] = bytes([rng.choice(TAGS)])
            case 1:
                changed[at : at + 1] = rng.randbytes(1)
            case 2:
                del changed[at : at + span]
            case 3:
                changed[at:at] = changed[at : at + span]
            case 4:
                start = rng.randrange(len(data))
                changed[at : at + span] = data[start : start + span]
            case _:
                changed[at:at] = bytes([rng.choice(TAGS)]) * span
    return bytes(changed)


def _resigned(operation: str, data: bytes, rng: random.Random) -> bytes:
    """Mostly mutates a signed body, so that the fuzz gets past the signature."""
    if rng.random() < 0.2:
        return _mutated(data, rng)
    prefix = data[:37] + wire.public_key_of(PRIVATE_KEY)
    body = _mutated(data[133:], rng)
    return prefix + sign(PRIVATE_KEY, DOMAINS[operation], prefix, body) + body


def _case(operation: str, valid: list[bytes], rng: random.Random) -> bytes:
    if rng.random() < 0.15:
        return rng.randbytes(rng.randrange(200))
    data = rng.choice(valid)
    return _resigned(operation, data, rng) if operation in DOMAINS else _mutated(data, rng)


@pytest.mark.parametrize("operation", CASES_PER_OPERATION)
def test_mutations_and_noise_raise_only_wire_errors(operation: str) -> None:
    rng = random.Random(f"fuzz {operation}")
    valid = _valid_inputs(operation)
    decode: Callable[..., Any] = getattr(wire, operation)
    arguments = (SWARM_ID,) if operation in DOMAINS else ()
    reasons, decoded = set(), 0
    for _ in range(CASES_PER_OPERATION[operation]):
        data = _case(operation, valid, rng)
        try:
            decode(data, *arguments)
            decoded += 1
        except wire.WireError as error:
            reasons.add(error.reason)
    # A fuzz that is always or never refused, or always for one reason, would test little.
    assert decoded > 0
    assert len(reasons) >= 8


def test_what_survives_mutation_is_a_record_that_can_be_sent() -> None:
    rng = random.Random("resend")
    valid = _valid_inputs("decode_group")
    resent = 0
    for _ in range(4000):
        try:
            group = wire.decode_group(_mutated(rng.choice(valid), rng))
        except wire.WireError:
            continue
        assert wire.decode_group(wire.encode_group(group)) == group
        resent += 1
    assert resent > 50


def test_what_the_scan_lets_pass_msgpack_reads_without_a_fault() -> None:
    rng = random.Random("scan")
    limits = MessageLimits(size=64, nodes=40, depth=4)
    passed = 0
    for _ in range(20_000):
        size = rng.randint(1, 12)
        data = bytes(rng.choice(TAGS) if rng.random() < 0.5 else rng.randrange(128)
                     for _ in range(size))  # fmt: skip
        try:
            value = unpack(data, limits)
        except wire.WireError:
            continue
        assert value == msgpack.unpackb(data)
        passed += 1
    assert passed > 500


VALID = [(name, data) for name in CASES_PER_OPERATION for data in _valid_inputs(name)]
EDITS = st.lists(
    st.tuples(st.integers(0, 2**20), st.sampled_from((0, 1, 3)), st.binary(max_size=12)), max_size=6
)
"""Where, how many bytes go, and what comes in their place."""


def _decoded_within_bounds(chosen: int, edits: list[tuple[int, int, bytes]], noise: bytes) -> None:
    operation, data = VALID[chosen % len(VALID)]
    changed = bytearray(noise or data)
    for at, gone, came in edits:
        at %= len(changed) + 1
        changed[at : at + gone] = came
    given_bytes = bytes(changed)
    if operation in DOMAINS and not noise:
        prefix = data[:37] + wire.public_key_of(PRIVATE_KEY)
        body = given_bytes[133:]
        given_bytes = prefix + sign(PRIVATE_KEY, DOMAINS[operation], prefix, body) + body
    arguments = (SWARM_ID,) if operation in DOMAINS else ()
    decode: Callable[..., Any] = getattr(wire, operation)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        with contextlib.suppress(wire.WireError):
            decode(given_bytes, *arguments)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before <= 8 * len(given_bytes) + 2**20


def _searched(cases: int) -> Callable[[], None]:
    quietly = [HealthCheck.too_slow]
    search = settings(max_examples=cases, deadline=None, database=None, derandomize=True,
                      suppress_health_check=quietly)  # fmt: skip
    chosen = st.integers(0, len(VALID) - 1)
    found: Callable[[], None] = search(given(chosen, EDITS, st.binary(max_size=200) | st.just(b""))(
        _decoded_within_bounds
    ))  # fmt: skip
    return found


def test_a_search_finds_nothing_but_wire_errors_and_no_memory_beyond_the_bound() -> None:
    _searched(1500)()


@pytest.mark.real
@pytest.mark.timeout(3600)
def test_a_search_of_50_000_cases_finds_nothing_either() -> None:
    _searched(50_000)()


def test_the_suite_holds_at_least_20_000_cases() -> None:
    assert sum(CASES_PER_OPERATION.values()) >= 20_000
