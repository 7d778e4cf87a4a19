"""Sequence numbers and the replay window, against a model that keeps everything."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import swarmproto as wire

IDS = [bytes([number]) * 32 for number in range(4)]


def test_a_number_follows_the_clock_and_never_repeats() -> None:
    assert wire.next_sequence(-1, 1000) == 1000
    assert wire.next_sequence(1000, 1000) == 1001
    assert wire.next_sequence(5000, 1000) == 5001


def test_the_same_bundle_is_a_duplicate_and_another_one_equivocation() -> None:
    window = wire.ReplayWindow().accepting(7, IDS[0])
    assert window.check(7, IDS[0]) == "duplicate"
    assert window.check(7, IDS[1]) == "equivocation"
    assert window.check(6, IDS[1]) == "fresh"
    assert window.accepting(7, IDS[1]) == window


def test_bundles_may_come_in_any_order_within_the_window() -> None:
    window = wire.ReplayWindow()
    for number in (30_000, 10_000, 20_000):
        assert window.check(number, IDS[0]) == "fresh"
        window = window.accepting(number, IDS[0])
    assert [number for number, _ in window.entries] == [10_000, 20_000, 30_000]


def test_what_falls_out_of_the_window_is_stale_for_good() -> None:
    window = wire.ReplayWindow()
    for number in range(wire.REPLAY_WINDOW_WIDTH + 3):
        window = window.accepting(number * 1000, IDS[0])
    assert len(window.entries) == wire.REPLAY_WINDOW_WIDTH
    assert window.floor == 2000
    assert window.check(2000, IDS[0]) == "stale"
    assert window.check(2001, IDS[0]) == "fresh"
    assert wire.ReplayWindow.from_bytes(window.to_bytes()) == window


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.lists(st.tuples(st.integers(0, wire.COUNTER_MAX), st.sampled_from(IDS)), max_size=40))
def test_no_bundle_is_fresh_twice(arrivals: list[tuple[int, bytes]]) -> None:
    window, seen = wire.ReplayWindow(), dict[int, bytes]()
    for number, bundle_id in arrivals:
        expected = "fresh"
        if number in seen:
            expected = "duplicate" if seen[number] == bundle_id else "equivocation"
        assert window.check(number, bundle_id) == expected
        window = window.accepting(number, bundle_id)
        seen.setdefault(number, bundle_id)
    assert wire.ReplayWindow.from_bytes(window.to_bytes()) == window


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", wire.Reason.TRUNCATED),
        (b"\x02" + bytes(10), wire.Reason.VERSION),
        (b"\x01" + bytes(8) + b"\x04\x01" + bytes(24 * 1025), wire.Reason.RANGE),
        (b"\x01" + bytes(8) + b"\0\1" + bytes(23), wire.Reason.TRUNCATED),
        (b"\x01" + bytes(8) + b"\0\0" + b"x", wire.Reason.TRAILING),
        (b"\x01" + bytes(8) + b"\0\1" + bytes(24), wire.Reason.RANGE),
        (b"\x01" + b"\xff" * 7 + b"\xfe\0\0", wire.Reason.RANGE),
        (b"\x01" + bytes(8) + b"\0\1\x7f" + bytes(23), wire.Reason.RANGE),
    ],
)
def test_a_damaged_window_is_refused(data: bytes, reason: wire.Reason) -> None:
    with pytest.raises(wire.WireError) as caught:
        wire.ReplayWindow.from_bytes(data)
    assert caught.value.reason is reason


def test_noise_for_a_window_raises_only_wire_errors() -> None:
    rng = random.Random(3)
    whole = wire.ReplayWindow().accepting(5, IDS[0]).accepting(9, IDS[1]).to_bytes()
    for _ in range(3000):
        data = bytearray(whole)
        data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            window = wire.ReplayWindow.from_bytes(bytes(data[: rng.randint(1, 80)]))
        except wire.WireError:
            continue
        assert wire.ReplayWindow.from_bytes(window.to_bytes()) == window
