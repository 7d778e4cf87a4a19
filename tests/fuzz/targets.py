"""What is fuzzed: each target takes any bytes and raises only where something is wrong.

Beyond "raises nothing but its own error" each holds what it got against a property, so that a
finding need not be a crash. Signed things are signed here, after the mutation, so that the fuzzing
gets past the signature. Knows no fuzzer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

import msgpack

import swarmproto as wire
from swarmnode.logic import ANY_CONCLUSION, FormulaError, parse, truth_table
from swarmnode.network import light_hivemind
from swarmnode.network.dht_records import AnnouncementValidator
from swarmnode.network.dht_replica import valid_record
from swarmnode.network.doors import Doors
from swarmnode.network.known import Known
from swarmnode.network.lan_messages import NODES_PER_MESSAGE_MAX, Language, service_type
from swarmnode.network.serving import Serving
from swarmnode.network.shelf import Shelf
from swarmnode.network.whereabouts import Whereabouts
from swarmnode.rewards.extraction import COMPLETION_BYTES, extract_answer
from swarmnode.rewards.verifiers import verify
from swarmnode.selection.admission import AdmissionRules, Refused, open_delivered
from swarmnode.selection.bundles import open_answer
from swarmnode.wire import received_group
from swarmproto.limits import MessageLimits
from swarmproto.scan import unpack
from swarmproto.signing import sign
from tests.unit.network_made import (
    NOW,
    RULES,
    RULES_BYTES,
    SWARM,
    announcement,
    bundle,
    private_key,
)
from tests.unit.network_time import FixedClock

Target = Callable[[bytes], None]

KEY: Final = private_key(1)
ENVELOPES: Final = (
    (b"SWNB", b"swarmnode/1/bundle-header", wire.open_header),
    (b"SWNA", b"swarmnode/1/announcement", wire.open_announcement),
)
ENCODED_AGAIN: Final[Mapping[str, Callable[..., bytes]]] = {
    "decode_group": wire.encode_group,
    "decode_rules": wire.encode_rules,
    "decode_discover_request": wire.encode_discover_request,
    "decode_discover_response": wire.encode_discover_response,
    "decode_fetch_request": wire.encode_fetch_request,
    "decode_fetch_response": wire.encode_fetch_response,
    "decode_offer_request": wire.encode_offer_request,
    "decode_offer_response": wire.encode_offer_response,
    "decode_swarm_request": wire.encode_swarm_request,
    "decode_swarm_response": wire.encode_swarm_response,
}
DECODERS: Final = tuple(ENCODED_AGAIN)
SMALL: Final = MessageLimits(size=4096, nodes=200, depth=6)
RULES_OF_ADMISSION: Final = AdmissionRules(
    swarm_id=SWARM,
    fingerprints={("basic_arithmetic", "easy"): b"f" * 32},
    completion_tokens=64,
    clock_skew_seconds=120.0,
    wants_dead=True,
)

ANSWERS: Final[Mapping[str, tuple[str, Mapping[str, object]]]] = {
    "arc_1d": ("1 2 0", {}),
    "base_conversion": ("1f4", {}),
    "basic_arithmetic": ("-15", {}),
    "bf": ("abc", {}),
    "binary_matrix": ("0 1\n1 2", {}),
    "calendar_arithmetic": ("12", {}),
    "decimal_arithmetic": ("-3.125", {"tolerance": "0.001"}),
    "fraction_simplification": ("3/7", {}),
    "propositional_logic": (
        "A",
        {"rule": ANY_CONCLUSION, "premises": ["A ∧ B", "B → C"], "variables": ["A", "B", "C"]},
    ),
    "gcd": ("12", {}),
    "cryptarithm": ("A=1,B=2,C=3", {"words": ["A", "B"], "result": "C"}),
    "jugs": ('["fill A"]', {"capacities": [3, 5], "target": 4}),
    "kakurasu": ("1 0\n0 1", {"row_sums": [1, 2], "column_sums": [1, 2]}),
    "knights_knaves": ("Zoe is a knight, and Ann is a knave.", {}),
    "number_format": ("1234.5", {}),
    "palindrome_generation": ("abba", {"letters": ["a", "b", "b", "a"]}),
    "palindrome_partitioning": ('[["a","b"],["ab"]]', {}),
    "polynomial_equations": ("-1.5, 2.25", {}),
    "power_function": ("0.000123456", {}),
    "prime_factorization": ("2 × 2 × 3", {}),
    "shortest_path": ("right down", {"matrix": [["*", "O"], ["X", "#"]]}),
    "tower_of_hanoi": (
        "Move disk 1 from Peg 1 to Peg 3",
        {"disks": 1, "pegs": 3, "start": 1, "goal": 3},
    ),
}
"""Reference answer and metadata: the nine tasks, those that have verifiers of their own, and one of
all others, which are compared alike."""
EXACT: Final = frozenset({"arc_1d", "base_conversion", "basic_arithmetic", "bf"})
TASKS: Final = tuple(sorted(ANSWERS))


def codec(data: bytes) -> None:
    """The first byte chooses a decoder; what it takes can be sent again and is the same then."""
    if not data:
        return
    name = DECODERS[data[0] % len(DECODERS)]
    decode = getattr(wire, name)
    try:
        record = decode(data[1:])
    except wire.WireError:
        return
    assert decode(ENCODED_AGAIN[name](record)) == record


def scan(data: bytes) -> None:
    """What the scan lets pass, msgpack reads to the same value."""
    try:
        value = unpack(data, SMALL)
    except wire.WireError:
        return
    assert repr(value) == repr(msgpack.unpackb(data, strict_map_key=False))


def envelope(data: bytes) -> None:
    """A header or an announcement, as it came or signed anew, depending on the first byte."""
    if not data:
        return
    magic, domain, open_it = ENVELOPES[data[0] & 1]
    body = data[1:]
    if data[0] & 2:
        prefix = magic + b"\x01" + SWARM + wire.public_key_of(KEY)
        body = prefix + sign(KEY, domain, prefix, body) + body
    try:
        opened: Any = open_it(body, SWARM)
    except wire.WireError:
        opened = None
    try:
        delivered = open_delivered(body, SWARM)
        assert delivered.encoded == body
    except Refused:
        assert data[0] & 1 == 0 or opened is None
    Known(SWARM, FixedClock()).learn(body, "peer")


def groups(data: bytes) -> None:
    """A group of any bytes, honestly signed and announced, on its way into the pool."""
    if not data or len(data) > wire.GROUP_BYTES_MAX:
        return
    label = wire.PolicyLabel("tiny", 3, bytes(32))
    sealed = wire.seal_bundle(KEY, SWARM, 5, int(NOW * 1000), label, [data])
    announced = replace(
        _announced(), bundle_id=wire.bundle_id(sealed.header_bytes), size=wire.bundle_size(sealed)
    )
    response = wire.FetchResponse("ok", sealed.header_bytes, ((0, data),))
    try:
        opened = open_answer(
            announced, response, (0,), wire.ReplayWindow(), RULES_OF_ADMISSION, NOW
        )
    except Refused:
        return
    for record in opened.groups.values():
        for completion in received_group(record, opened.header).completions:
            assert completion.token_count <= RULES_OF_ADMISSION.completion_tokens
            assert all(map(math.isfinite, completion.logprobs or ()))


def verifiers(data: bytes) -> None:
    """The first byte chooses a task; the rest is a completion's text."""
    if not data:
        return
    task = TASKS[data[0] % len(TASKS)]
    answer, metadata = ANSWERS[task]
    text = data[1:].decode("utf-8", "replace")
    score = verify(task, answer, metadata, text)
    assert math.isfinite(score)
    assert 0.0 <= score <= 1.0
    if task in EXACT:
        assert (score == 1.0) == (extract_answer(text, COMPLETION_BYTES) == answer)
    assert (extract_answer(text, COMPLETION_BYTES) or "") in text
    try:
        truth_table(parse(text, "ABC"), "ABC")
    except FormulaError:
        return


def records(data: bytes) -> None:
    """A value, a subkey and a whole dictionary, as a peer of the DHT may send them."""
    try:
        value = light_hivemind.load_value(data)
    except Exception:  # as the replica does: a decoder may make anything of a stranger's bytes
        value = None
    assert _depth(value) <= light_hivemind.DEPTH_MAX + 1
    validator = AnnouncementValidator(SWARM, lambda _: [bytes(20)], bytes.hex, lambda: NOW)
    record = valid_record(validator, bytes(20), value, data, NOW + 60)
    assert record is None, "it would have to be signed"
    if isinstance(value, light_hivemind.DictionaryDHTValue):
        assert len(value.data) <= light_hivemind.DICTIONARY_RECORDS_MAX
        assert all(isinstance(name, str) for name in value.data)


def lan(data: bytes) -> None:
    """A message of somebody on the local network."""
    heard = Language(service_type(SWARM, None), "0" * 16).heard(data)
    assert len(heard.seen) <= NODES_PER_MESSAGE_MAX
    for seen in heard.seen:
        assert 0 < seen.port < 65536
        assert seen.peer_id.isalnum()


def _depth(value: object) -> int:
    return 1 + max(map(_depth, value), default=0) if isinstance(value, tuple) else 0


def handlers(data: bytes) -> None:
    """The first byte chooses one of the four protocols that every node serves."""
    if not data:
        return
    clock, made = FixedClock(), _made()
    known, shelf = Known(SWARM, clock), Shelf(clock, quota_bytes=10**6)
    shelf.put(made, NOW + 300)
    known.learn(_announced().encoded, "")
    serving = Serving(
        swarm_id=SWARM, rules=RULES, rules_bytes=RULES_BYTES, bootstrap=lambda: (), known=known,
        shelf=shelf, clock=clock, rng=random.Random(0), doors=Doors(clock, Whereabouts()),
    )  # fmt: skip
    protocols = (
        wire.DISCOVER_PROTOCOL,
        wire.FETCH_PROTOCOL,
        wire.OFFER_PROTOCOL,
        wire.SWARM_PROTOCOL,
    )
    decoders: tuple[Callable[[bytes], object], ...] = (
        wire.decode_discover_response, wire.decode_fetch_response,
        wire.decode_offer_response, wire.decode_swarm_response,
    )  # fmt: skip
    which = data[0] % 4
    response = serving.handlers[protocols[which]]("peer", data[1:])
    decoders[which](response)
    assert len(response) <= wire.RESPONSE_BYTES_MAX
    assert sum(serving.counts.values()) == 1


@cache
def _made() -> wire.Bundle:
    return bundle(KEY)


@cache
def _announced() -> wire.Announcement:
    """Of a bundle with one group."""
    return wire.open_announcement(announcement(KEY, bundle(KEY, groups=1)), SWARM)


TARGETS: Final[Mapping[str, Target]] = {
    each.__name__: each
    for each in (codec, scan, envelope, groups, verifiers, handlers, records, lan)
}
