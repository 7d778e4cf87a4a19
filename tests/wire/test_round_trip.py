"""Whatever can be encoded is decoded to the same record, and what can't says why."""

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swarmproto as wire

PRIVATE_KEY = bytes(range(32))
SWARM_ID = b"\x05" * 32
EXAMPLES = settings(max_examples=100, deadline=None, derandomize=True, database=None)

names = st.from_regex(r"[a-z0-9][a-z0-9_.\-]{0,20}", fullmatch=True)
counters = st.integers(0, wire.COUNTER_MAX)
hashes = st.binary(min_size=32, max_size=32)
addresses = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)


def texts(low: int = 0) -> st.SearchStrategy[str]:
    characters = st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    return st.text(characters, min_size=low, max_size=60)


@st.composite
def completions(draw: st.DrawFn) -> wire.CompletionRecord:
    count = draw(st.integers(0, 8))
    floats = st.floats(max_value=0.0, allow_nan=False, allow_infinity=False, width=32)
    kind = draw(st.sampled_from(["none", "tokens", "total"]))
    values = draw(st.lists(floats, min_size=count, max_size=count))
    return wire.CompletionRecord(
        text=draw(texts()),
        finish_reason=draw(st.sampled_from(["stop", "length"])),
        token_count=count,
        logprobs=wire.pack_logprobs(values) if kind == "tokens" else None,
        total_logprob=math.fsum(values) if kind == "total" else None,
    )


groups = st.builds(
    wire.GroupRecord,
    task=names,
    level=names,
    index=st.integers(0, wire.INDEX_MAX),
    fingerprint=hashes,
    question=texts(1),
    answer=texts(),
    completions=st.lists(completions(), min_size=2, max_size=6).map(tuple),
)
policies = st.builds(
    wire.PolicyLabel, name=texts(1).filter(lambda name: len(name.encode()) <= 128),
    version=counters, tokenizer_fingerprint=hashes,
)  # fmt: skip
announced = st.integers(2, 64).flatmap(
    lambda count: st.builds(
        wire.AnnouncedGroup,
        st.sampled_from(["a", "b_c"]),
        st.sampled_from(["easy", "paper"]),
        st.integers(0, count),
        st.just(count),
    )
)


@EXAMPLES
@given(groups)
def test_a_group_survives(group: wire.GroupRecord) -> None:
    data = wire.encode_group(group)
    assert wire.decode_group(data) == group
    assert wire.encode_group(wire.decode_group(data)) == data


@EXAMPLES
@given(policies, counters, counters, st.lists(st.binary(max_size=50), min_size=1, max_size=64))
def test_a_bundle_survives(
    policy: wire.PolicyLabel, sequence: int, created: int, group_bytes: list[bytes]
) -> None:
    bundle = wire.seal_bundle(PRIVATE_KEY, SWARM_ID, sequence, created, policy, group_bytes)
    header = wire.open_header(bundle.header_bytes, SWARM_ID)
    assert header == bundle.header
    assert (header.policy, header.sequence, header.created) == (policy, sequence, created)
    assert header.public_key == wire.public_key_of(PRIVATE_KEY)
    for position, group in enumerate(group_bytes):
        wire.verify_group(header, position, group)


@EXAMPLES
@given(
    st.lists(announced, min_size=1, max_size=64),
    st.lists(addresses.filter(bool), max_size=8),
    counters.filter(lambda created: created < 2**52),
    st.integers(1, wire.ANNOUNCEMENT_LIFETIME_MS_MAX),
)
def test_an_announcement_survives(
    announced_groups: list[wire.AnnouncedGroup], holders: list[str], created: int, lifetime: int
) -> None:
    draft = wire.AnnouncementDraft(
        instance=bytes(16),
        bundle_id=bytes(32),
        size=1,
        groups=tuple(announced_groups),
        policy_version=3,
        created=created,
        expires=created + lifetime,
        holders=tuple(holders),
    )
    data = wire.seal_announcement(PRIVATE_KEY, SWARM_ID, draft)
    opened = wire.open_announcement(data, SWARM_ID)
    assert len(data) <= wire.ANNOUNCEMENT_BYTES_MAX
    for field in dataclasses.fields(draft):
        assert getattr(opened, field.name) == getattr(draft, field.name)
    assert opened.encoded == data


@EXAMPLES
@given(
    st.sets(st.tuples(names, names), min_size=1, max_size=20),
    st.integers(2, 64).flatmap(lambda least: st.tuples(st.just(least), st.integers(least, 64))),
    st.integers(1, wire.COMPLETION_TOKENS_MAX),
)
def test_rules_survive_and_have_one_id(
    tasks: set[tuple[str, str]], completions_range: tuple[int, int], tokens: int
) -> None:
    rules = wire.SwarmRules("r", tuple(sorted(tasks)), *completions_range, tokens, 64)
    assert wire.decode_rules(wire.encode_rules(rules)) == rules
    other = dataclasses.replace(rules, name="s")
    assert wire.swarm_id(rules) != wire.swarm_id(other)


@EXAMPLES
@given(st.sets(st.integers(0, 63)), st.binary(min_size=1, max_size=9), st.integers(1, 64))
def test_requests_and_responses_survive(positions: set[int], data: bytes, count: int) -> None:
    ordered = tuple(sorted(positions))
    discover = wire.DiscoverRequest(SWARM_ID, count)
    assert wire.decode_discover_request(wire.encode_discover_request(discover)) == discover
    told = wire.DiscoverResponse((data,) * (count - 1))
    assert wire.decode_discover_response(wire.encode_discover_response(told)) == told
    fetch = wire.FetchRequest(SWARM_ID, SWARM_ID, ordered)
    assert wire.decode_fetch_request(wire.encode_fetch_request(fetch)) == fetch
    fetched = wire.FetchResponse("ok", data, tuple((position, data) for position in ordered))
    assert wire.decode_fetch_response(wire.encode_fetch_response(fetched)) == fetched
    busy = wire.FetchResponse("busy", None, ())
    assert wire.decode_fetch_response(wire.encode_fetch_response(busy)) == busy
    offer = wire.OfferRequest(data, data, (data,) * count)
    assert wire.decode_offer_request(wire.encode_offer_request(offer)) == offer
    held = wire.OfferResponse("held", count)
    assert wire.decode_offer_response(wire.encode_offer_response(held)) == held
    swarm = wire.SwarmResponse(data, ("/ip4/192.0.2.1/tcp/1",))
    assert wire.decode_swarm_response(wire.encode_swarm_response(swarm)) == swarm


COMPLETION = wire.CompletionRecord("a", "stop", 1)
GROUP = wire.GroupRecord("a", "b", 0, bytes(32), "q", "a", (COMPLETION, COMPLETION))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"question": "\ud800"}, wire.Reason.UTF8),
        ({"question": "a\0"}, wire.Reason.TEXT),
        ({"index": 2**64}, wire.Reason.RANGE),
        ({"index": 2**32}, wire.Reason.RANGE),
        ({"index": True}, wire.Reason.WRONG_TYPE),
        ({"index": 1.0}, wire.Reason.WRONG_TYPE),
        ({"index": object()}, wire.Reason.WRONG_TYPE),
        ({"task": "A"}, wire.Reason.TEXT),
        ({"fingerprint": b""}, wire.Reason.RANGE),
        ({"completions": (COMPLETION,) * 65}, wire.Reason.RANGE),
        ({"completions": (dataclasses.replace(COMPLETION, text="a" * 16384),) * 17},
         wire.Reason.OVERSIZE),
        ({"completions": (dataclasses.replace(COMPLETION, logprobs=b""),) * 2},
         wire.Reason.RANGE),
        ({"completions": (dataclasses.replace(COMPLETION, total_logprob=math.nan),) * 2},
         wire.Reason.NONFINITE),
    ],
)  # fmt: skip
def test_a_group_that_nobody_would_take_is_not_encoded(
    changes: dict[str, Any], reason: wire.Reason
) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.encode_group(dataclasses.replace(GROUP, **changes))
    assert caught.value.reason is reason


def test_a_bundle_stays_within_its_limits() -> None:
    policy = wire.PolicyLabel("tiny", 0, bytes(32))
    quarter = bytes(wire.GROUP_BYTES_MAX)
    for group_bytes, reason in (
        ([], wire.Reason.RANGE),
        ([b"g"] * 65, wire.Reason.RANGE),
        ([quarter + b"g"], wire.Reason.OVERSIZE),
        ([quarter] * 8, wire.Reason.OVERSIZE),
    ):
        with pytest.raises(wire.WireError) as caught:
            wire.seal_bundle(PRIVATE_KEY, SWARM_ID, 0, 0, policy, group_bytes)
        assert caught.value.reason is reason


def test_64_groups_of_nine_tasks_and_a_full_address_fit_into_an_announcement() -> None:
    tasks = (
        "fraction_simplification", "propositional_logic", "calendar_arithmetic",
        "base_conversion", "basic_arithmetic", "decimal_arithmetic",
        "binary_matrix", "arc_1d", "bf",
    )  # fmt: skip
    draft = wire.AnnouncementDraft(
        instance=bytes(16),
        bundle_id=bytes(32),
        size=wire.BUNDLE_BYTES_MAX,
        groups=tuple(wire.AnnouncedGroup(tasks[row % 9], "paper", 8, 8) for row in range(64)),
        policy_version=wire.COUNTER_MAX,
        created=1_764_460_800_000,
        expires=1_764_460_900_000,
        holders=("/ip6/2001:db8:85a3:8d3:1319:8a2e:370:7348/tcp/65535/p2p/" + "a" * 52,) * 2,
    )
    assert len(wire.seal_announcement(PRIVATE_KEY, SWARM_ID, draft)) <= 1024
    with pytest.raises(wire.WireError) as caught:
        wire.seal_announcement(
            PRIVATE_KEY, SWARM_ID, dataclasses.replace(draft, holders=("a" * 250,) * 3)
        )
    assert caught.value.reason is wire.Reason.OVERSIZE


def test_log_probabilities_are_float32_and_rounding_above_zero_is_forgiven() -> None:
    assert wire.unpack_logprobs(wire.pack_logprobs((-0.5, 1e-7, -0.0))) == (-0.5, 0.0, 0.0)
    for value, reason in (
        (0.1, wire.Reason.RANGE),
        (-1e39, wire.Reason.RANGE),
        (math.nan, wire.Reason.NONFINITE),
        (-math.inf, wire.Reason.NONFINITE),
    ):
        with pytest.raises(wire.WireError) as caught:
            wire.pack_logprobs((value,))
        assert caught.value.reason is reason
    with pytest.raises(wire.WireError) as caught:
        wire.unpack_logprobs(b"abc")
    assert caught.value.reason is wire.Reason.RANGE


def test_one_question_in_ten_is_held_out() -> None:
    held_out = sum(wire.is_held_out("bf", "easy", f"question {number}") for number in range(5000))
    assert 420 <= held_out <= 580


def test_seeds_take_whole_ids_and_fingerprints_sixteen_pairs() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        wire.stream_seed(bytes(31), bytes(32), "a", "b")
    with pytest.raises(ValueError, match="16 pairs"):
        wire.fingerprint("a", "b", [("q", "a")] * 15)
    assert 0 <= wire.stream_seed(bytes(32), bytes(32), "a", "b") < 2**63
