"""What strangers may take of a node, by prefix and then by peer: budget, places, bytes."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from swarmnode.network.known import BYTES_MAX, COUNT_MAX, Known
from swarmnode.prefixes import own_prefix
from swarmnode.selection.admission import Reason
from swarmnode.selection.budget import Wanted, within_budget
from swarmnode.selection.places import Places
from swarmnode.selection.pool import Pool, held_bytes
from swarmnode.selection.quality import HALF_LIFE_SECONDS, Quality
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmnode.types import Scored
from swarmproto import AnnouncedGroup, Announcement, AnnouncementDraft, seal_announcement
from tests.unit.made import scored
from tests.unit.network_made import NOW, SWARM
from tests.unit.network_time import FixedClock

MIB = 1024 * 1024


def peer(number: int) -> bytes:
    return bytes([number]) * 32


def announced(key: bytes, groups: int, size: int = 1000) -> Announcement:
    live = AnnouncedGroup("bf", "easy", 1, 2)
    ids = (bytes(32), key, bytes(16), bytes(32))
    return Announcement(*ids, size, (live,) * groups, 0, 1, 2, (), bytes(64), b"")


def wanted(number: int, groups: int = 2, *, size: int = 1000, prefix: str | None = None) -> Wanted:
    announcement = announced(peer(number), groups, size)
    return Wanted(announcement, tuple(range(groups)), prefix or own_prefix(str(number)))


def budget(found: Sequence[Wanted], seed: int = 0, **limits: Any) -> list[Wanted]:
    settled: dict[str, Any] = {"groups": 8, "announced_bytes": 10**6, "places": Places(100, {})}
    return within_budget(found, rng=random.Random(seed), **{**settled, **limits})


def counts(chosen: Sequence[Wanted]) -> list[int]:
    return [len(each.positions) for each in chosen]


def test_a_budget_takes_a_bundle_of_each_key_before_a_second_of_any() -> None:
    found = [*(wanted(1) for _ in range(20)), wanted(2), wanted(3)]
    for prefix in (None, "203.0.113.0/24"):
        near = [replace(each, prefix=prefix or each.prefix) for each in found]
        for seed in range(10):
            chosen = budget(near, seed, groups=7)
            first = {each.announcement.public_key for each in chosen[:3]}
            assert first == {peer(1), peer(2), peer(3)}
            assert counts(chosen) == [2, 2, 2, 1]


def test_a_budget_is_shared_out_among_four_authors_where_there_are_as_many() -> None:
    found = [wanted(number, 8) for number in range(7)]
    assert counts(budget(found)) == [2, 2, 2, 2]
    near = [replace(each, prefix="203.0.113.0/24") for each in found]
    assert counts(budget(near)) == [2, 2, 2, 2]
    assert counts(budget(found[:1])) == [8]


def test_fifty_keys_at_one_address_are_given_what_one_is() -> None:
    honest = [wanted(number, 8) for number in range(4)]
    sybils = [wanted(number, 8, prefix="203.0.113.0/24") for number in range(10, 60)]
    given = Counter[str]()
    for seed in range(500):
        for each in budget([*honest, *sybils], seed):
            given[each.prefix] += len(each.positions)
    assert given.total() == 4000
    assert given["203.0.113.0/24"] / given.total() < 0.2
    alone = budget(sybils)
    assert sum(counts(alone)) == 8, "what nobody else wants is theirs"


def test_a_budget_of_bytes_leaves_out_what_would_exceed_it_and_goes_on() -> None:
    large, small = wanted(1, size=5000), wanted(2)
    for seed in range(10):
        assert budget([large, small], seed, announced_bytes=4000) == [small]
        half = [replace(large, positions=(1,)), replace(small, positions=(0,))]
        chosen = budget(half, seed, announced_bytes=3000)
        assert sorted(each.positions for each in chosen) == [(0,), (1,)]


def test_a_budget_gives_only_what_would_have_a_place() -> None:
    one, two = own_prefix("1"), own_prefix("2")
    assert counts(budget([wanted(1, 8)], places=Places(3, {}))) == [3]
    full = Places(4, {one: 4})
    assert counts(budget([wanted(1, 8)], places=full)) == []
    assert counts(budget([wanted(2, 8)], places=full)) == [2]
    assert counts(budget([wanted(3, 8)], places=Places(4, {one: 2, two: 2}))) == [1]


def test_places_go_to_whoever_has_fewer_until_all_have_as_many() -> None:
    places = Places(12, {"a": 12})
    assert places.give("b", 100) == 6
    assert places.give("c", 100) == 4
    assert [places.open_to(each) for each in "abcd"] == [False, False, False, True]
    assert Places(2, {}).give("a", 5) == 2


def test_a_full_pool_takes_from_the_prefix_that_has_the_most_whatever_its_keys() -> None:
    pool = Pool(capacity=4, age_seconds=10)
    sybils = [
        replace(scored(publisher=peer(number)), prefix="203.0.113.0/24") for number in (1, 2, 3)
    ]
    twice = [scored(publisher=peer(9), index=index) for index in range(3)]
    for each in (*sybils, twice[0]):
        assert pool.add(each) == []
    assert pool.add(twice[1]) == [sybils[0]]
    assert pool.add(twice[2]) == [twice[0]], "as many as the others, so that its own oldest goes"


def test_a_pool_is_bounded_in_bytes_and_the_prefix_with_the_most_bytes_pays() -> None:
    def texts(number: int, characters: int) -> Scored:
        small = scored(publisher=peer(number), index=number)
        answer = replace(small.group.completions[0], text="x" * characters)
        group = replace(small.group, completions=(answer, *small.group.completions[1:]))
        return replace(small, group=group, prefix=own_prefix(str(number)))

    pool = Pool(capacity=100, age_seconds=10, bytes_max=1_000_000)
    large = texts(1, 200_000)
    assert pool.add(large) == []
    small = [texts(2, 1000) for _ in range(30)]
    assert [left for each in small for left in pool.add(each)] == [large]
    beyond = texts(3, 300_000)
    assert pool.add(beyond) == [beyond]
    assert len(pool) == 30
    assert pool.size <= 1_000_000


def test_the_estimate_of_a_groups_memory_is_no_less_than_what_it_takes() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = scored([1.0, 0.0] * 4)
        completions = tuple(
            replace(
                each,
                text=chr(0x1F600) * 3000 + str(at),
                logprobs=tuple(float(number) for number in range(4000)),
            )
            for at, each in enumerate(made.group.completions)
        )
        held = replace(made, group=replace(made.group, completions=completions))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) <= held_bytes(held) <= 2 * (after - before)


def _seen(remembered: Remembered, number: int) -> None:
    remembered.first_sight(number.to_bytes(32))


def _spent(remembered: Remembered, number: int) -> None:
    remembered.spend(number.to_bytes(32), "t" * 64, "l" * 64, number)


def test_what_was_seen_and_spent_takes_24_mib_at_most_and_its_windows_8() -> None:
    tracemalloc.start()
    try:
        remembered = Remembered(items=2048)
        for number in range(4096):
            _seen(remembered, number)
            _spent(remembered, number)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 65 536 of each are remembered by default.
    assert held * 65_536 / 2048 < 24 * MIB
    windows = Remembered(windows_bytes=20_000)
    for key in range(8):
        for sequence in range(200):
            windows.accept(peer(key), sequence, bytes(32))
    assert sum(map(len, windows.changed_windows().values())) <= 20_000
    assert windows.window(peer(7)).check(0, bytes(32)) == "duplicate", "the newest stays"
    assert windows.window(peer(0)).entries == (), "the oldest went"


def test_two_questions_are_never_taken_for_one_by_how_they_are_written() -> None:
    remembered = Remembered()
    assert remembered.spend(peer(1), "a", "bc", 1)
    assert remembered.spend(peer(1), "ab", "c", 1)
    assert remembered.spend(peer(1), "a", "bc", 11)
    assert not remembered.spend(peer(1), "a", "bc", 1)


def _announcement(number: int, groups: int) -> bytes:
    draft = AnnouncementDraft(
        instance=bytes(16),
        bundle_id=number.to_bytes(32),
        size=1000 * groups,
        groups=(AnnouncedGroup("bf", "easy", 1, 8),) * groups,
        policy_version=1,
        created=int(NOW * 1000),
        expires=int(NOW * 1000) + 300_000,
        holders=(),
    )
    return seal_announcement(number.to_bytes(32), SWARM, draft)


@pytest.mark.parametrize("groups", [1, 64])
def test_known_announcements_take_9_mib_at_most_however_many_groups_they_have(
    groups: int,
) -> None:
    part = 16
    announcements = [_announcement(number, groups) for number in range(1, COUNT_MAX // part * 2)]
    tracemalloc.start()
    try:
        known = Known(SWARM, FixedClock(), count_max=COUNT_MAX // part, bytes_max=BYTES_MAX // part)
        for each in announcements:
            known.learn(bytes(bytearray(each)), "")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert known.counts["evicted"] > 0
    assert held * part < 9 * MIB + part * MIB  # what was refused is remembered apart


def test_the_standing_of_any_number_of_names_takes_8_mib_at_most() -> None:
    part = 16
    tracemalloc.start()
    try:
        standing = Standing(4096 // part)
        for number in range(1024):
            for reason in Reason:
                standing.note(f"{number:0256d}", reason, NOW)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held * part < 8 * MIB


def test_the_quality_of_any_number_of_names_takes_1_mib_at_most() -> None:
    tracemalloc.start()
    try:
        quality = Quality()
        for number in range(3000):
            quality.note(f"{number:064d}", NOW, fetched=1)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(quality) == 1024
    assert held < MIB


def test_quality_is_what_share_was_of_use_and_fades() -> None:
    quality = Quality()
    assert quality.of("peer", NOW) is None
    quality.note("peer", NOW, fetched=10)
    quality.note("peer", NOW, held=8, live=4, admitted=4)
    found = quality.of("peer", NOW)
    assert found is not None
    assert (found.groups, found.held, found.live, found.admitted) == (10, 0.8, 0.4, 0.4)
    assert found.score == pytest.approx(5 / 12)
    later = quality.of("peer", NOW + HALF_LIFE_SECONDS)
    assert later is not None
    assert (later.groups, later.admitted) == (5, 0.4)
    much_later = quality.of("peer", NOW + 20 * HALF_LIFE_SECONDS)
    assert much_later is not None
    assert much_later.score == pytest.approx(0.5, abs=1e-4), "nothing is known any more"
    quality.note("peer", NOW + 21 * HALF_LIFE_SECONDS, fetched=10, held=10, live=10, admitted=10)
    changed = quality.of("peer", NOW + 21 * HALF_LIFE_SECONDS)
    assert changed is not None
    assert changed.score > 0.9


def test_free_places_are_left_to_those_who_hold_some_already() -> None:
    places = Places(12, {"a": 2, "b": 3, "c": 3})
    assert places.give("a", 8) == 2, "more would be pushed out again"
    assert [places.give("b", 8), places.give("c", 8)] == [1, 1]
    assert not places.open_to("a"), "full, and equal"
    assert Places(12, {}).give("a", 20) == 12
    assert Places(12, {"a": 12}).give("b", 20) == 6
