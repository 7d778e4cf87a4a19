"""What is known: verified, bounded, fair to deliverers, and telling about clocks."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from swarmnode.keys import peer_id_of
from swarmnode.network.known import PER_AUTHOR, Known
from swarmnode.prefixes import own_prefix
from swarmproto import open_announcement, public_key_of
from tests.unit.network_made import NOW, SWARM, announcement, bundle, private_key
from tests.unit.network_time import FixedClock


def made(number: int, *, sequence: int = 1, created: float = NOW, life: float = 300.0) -> bytes:
    key = private_key(number)
    return announcement(key, bundle(key, sequence=sequence), created=created, life=life)


def known(clock: FixedClock | None = None, **limits: Any) -> Known:
    return Known(SWARM, clock or FixedClock(), **limits)


def test_what_is_verified_is_sampled_with_its_deliverer() -> None:
    here = known()
    assert here.learn(made(1), "peer") is not None
    (entry,) = here.sample(5, random.Random(0))
    assert (entry.announcement.encoded, entry.delivered_by) == (made(1), "peer")


def test_forged_foreign_expired_and_early_ones_are_counted_and_not_kept() -> None:
    here = known()
    good = made(1)
    key = private_key(1)
    foreign = announcement(key, bundle(key, swarm=bytes(32)), swarm=bytes(32))
    for data in (good[:-1] + bytes([good[-1] ^ 1]), b"", b"x" * 2000, foreign):
        assert here.learn(data, "") is None
    assert here.learn(made(1, created=NOW - 400), "") is None
    assert here.learn(made(1, created=NOW + 130), "") is None
    assert len(here) == 0
    assert here.counts == {
        "wire/signature": 1,
        "wire/truncated": 1,
        "wire/oversize": 1,
        "wire/foreign_swarm": 1,
        "expired": 1,
        "early": 1,
    }


def test_what_was_refused_is_not_verified_twice() -> None:
    here = known()
    for _ in range(3):
        here.learn(b"x" * 200, "")
    assert here.counts == {"wire/magic": 1, "refused_again": 2}


def test_the_newest_announcement_of_a_bundle_is_kept() -> None:
    here = known()
    key = private_key(1)
    older, newer = (announcement(key, bundle(key), created=NOW + at) for at in (0, 5))
    here.learn(newer, "b")
    here.learn(older, "a")
    here.learn(newer, "c")
    (entry,) = here.sample(5, random.Random(0))
    assert (entry.announcement.encoded, entry.delivered_by) == (newer, "b")
    assert here.counts == {"new": 1, "older": 1, "known": 1}


def test_an_author_has_no_more_than_its_share() -> None:
    here = known()
    for sequence in range(PER_AUTHOR + 5):
        here.learn(made(1, sequence=sequence, created=NOW + sequence), "")
    here.learn(made(2), "")
    assert len(here) == PER_AUTHOR + 1
    newest = {entry.announcement.created for entry in here.sample(99, random.Random(0))}
    assert max(newest) == int((NOW + PER_AUTHOR + 4) * 1000)
    assert here.counts["evicted"] == 5


def test_whoever_gave_most_loses_first() -> None:
    here = known(count_max=6)
    for number in (1, 2):
        here.learn(made(number), "modest")
    for number in range(3, 30):
        here.learn(made(number), "flooding")
    by = Counter(entry.delivered_by for entry in here.sample(99, random.Random(0)))
    assert by == {"modest": 2, "flooding": 4}


def test_bytes_are_bounded_too() -> None:
    here = known(bytes_max=7000)  # four, and not five
    for number in range(1, 20):
        here.learn(made(number), "")
    assert len(here) == 4


def test_deliverers_take_turns_in_a_sample() -> None:
    here = known()
    for number in range(1, 31):
        here.learn(made(number), "flooding")
    for number in (31, 32):
        here.learn(made(number), "modest")
    by = Counter(entry.delivered_by for entry in here.sample(6, random.Random(0)))
    assert by == {"flooding": 4, "modest": 2}


def test_what_expires_goes() -> None:
    clock = FixedClock()
    here = known(clock)
    here.learn(made(1, life=10), "")
    here.learn(made(2, life=100), "")
    clock.seconds += 50
    assert here.authors() == {public_key_of(private_key(2))}
    assert len(here) == 1


def peer(number: int) -> str:
    return peer_id_of(public_key_of(private_key(number)))


def test_a_clock_that_is_wrong_is_told_by_the_peers_that_are_connected() -> None:
    clock = FixedClock(NOW + 600)  # ours, ten minutes ahead
    here = known(clock)
    for number in (1, 2, 3):
        here.learn(made(number, created=NOW - 200), "")
    connected = {peer(number) for number in (1, 2, 3)}
    assert here.clocks.offset(connected) is None, "the first may have been under way for long"
    clock.seconds += 30
    for number in (1, 2, 3, 4, 5):
        here.learn(made(number, created=NOW + 28, sequence=2), "")
    assert here.clocks.offset(connected) == -602
    assert here.clocks.offset(set()) is None
    assert len(here) == 0, "by our clock they have all expired"


def test_one_peer_with_a_wrong_clock_moves_no_median() -> None:
    clock = FixedClock()
    here = known(clock)
    offsets = {1: 0.0, 2: 1.0, 3: 600.0, 4: -1.0, 5: 0.0}
    for at in (0.0, 60.0):
        clock.seconds = NOW + at
        for number, offset in offsets.items():
            here.learn(made(number, created=NOW + at + offset, sequence=int(at)), "")
    assert here.clocks.offset({peer(number) for number in offsets}) == 0


def test_what_is_early_is_learnt_once_it_is_time() -> None:
    clock = FixedClock()
    here = known(clock)
    data = made(1, created=NOW + 130)
    assert here.learn(data, "") is None
    clock.seconds += 20
    assert here.learn(data, "") == open_announcement(data, SWARM)


def test_each_authors_newest_comes_before_anybodys_second_newest() -> None:
    here = known()
    for sequence in range(5):
        for number in (1, 2, 3):
            here.learn(made(number, sequence=sequence, created=NOW + sequence), "")
    for seed in range(10):
        entries = here.sample(4, random.Random(seed))
        newest = [entry.announcement for entry in entries[:3]]
        assert {announced.created for announced in newest} == {int((NOW + 4) * 1000)}
        assert len({announced.public_key for announced in newest}) == 3
        assert entries[3].announcement.created == int((NOW + 3) * 1000)


def near_or_far(peer: str) -> str:
    return "203.0.113.0/24" if peer.startswith("sybil") else own_prefix(peer)


def test_fifty_deliverers_at_one_address_take_one_turn_and_lose_their_own_first() -> None:
    here = known(count_max=40, prefix_of=near_or_far)
    for number in range(1, 9):
        here.learn(made(number), "honest")
    for number in range(10, 60):
        here.learn(made(number), f"sybil {number}")
    by = Counter(entry.delivered_by[:5] for entry in here.sample(10, random.Random(0)))
    assert by == {"hones": 5, "sybil": 5}
    everything = Counter(entry.delivered_by[:5] for entry in here.sample(99, random.Random(0)))
    assert everything == {"hones": 8, "sybil": 32}
