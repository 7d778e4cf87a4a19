"""The pool, the filters, the I/J mix, and what bounds strangers: budget, weight and memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest

from swarmnode.selection.filters import (
    Filter,
    UnknownFilter,
    draw_peers_first,
    draw_rule,
    draw_uniformly,
    load_filter,
)
from swarmnode.selection.mix import Mix, Refusal, select
from swarmnode.selection.pool import Pool
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.weight import cut
from swarmnode.types import Scored
from tests.unit.made import scored

LIVE, FAILED, SOLVED = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
NAMES = ["nonzero-advantage", "uniform", "top-reward", "learnability", "fresh", "balanced"]


def peer(number: int) -> bytes:
    return bytes([number]) * 32


def chosen_by(name: str) -> Filter:
    return load_filter(name, draw_uniformly)


@pytest.mark.parametrize("name", NAMES)
def test_every_built_in_filter_returns_at_most_count_distinct_candidates(name: str) -> None:
    candidates = [scored(LIVE, index=n, publisher=peer(n % 3)) for n in range(9)]
    for count in (0, 1, 4, 20):
        picked = chosen_by(name).select(candidates, count, random.Random(1))
        assert len(picked) == min(count, 9)
        assert len({id(each) for each in picked}) == len(picked)
        assert all(any(each is known for known in candidates) for each in picked)


@pytest.mark.parametrize("name", ["nonzero-advantage", "learnability", "fresh", "balanced"])
def test_filters_that_do_not_want_dead_groups_never_pick_one(name: str) -> None:
    candidates = [scored(FAILED), scored(SOLVED), scored(LIVE)]
    assert chosen_by(name).wants_dead is False
    assert chosen_by(name).select(candidates, 3, random.Random(0)) == [candidates[2]]


def test_top_reward_takes_the_easiest_and_learnability_the_most_even() -> None:
    easy, even, hard = scored(SOLVED), scored((1.0, 1.0, 0.0, 0.0)), scored((1.0, 0.0, 0.0, 0.0))
    candidates = [hard, easy, even]
    assert chosen_by("top-reward").select(candidates, 1, random.Random(0)) == [easy]
    assert chosen_by("learnability").select(candidates, 1, random.Random(0)) == [even]


def test_fresh_takes_what_arrived_last() -> None:
    old, new = scored(LIVE, received=1.0), scored(LIVE, received=2.0)
    assert chosen_by("fresh").select([old, new], 1, random.Random(0)) == [new]


def test_balanced_gives_a_rare_task_its_place() -> None:
    common = [scored(LIVE, task="bf", index=n) for n in range(20)]
    rare = scored(LIVE, task="arc_1d")
    for seed in range(10):
        picked = chosen_by("balanced").select([*common, rare], 2, random.Random(seed))
        assert any(each is rare for each in picked)


def test_partial_credit_does_not_make_a_group_live() -> None:
    assert chosen_by("nonzero-advantage").select([scored((0.5, 0.1))], 1, random.Random(0)) == []


def test_drawing_peers_first_keeps_one_key_from_filling_the_set() -> None:
    flood = [scored(LIVE, index=n, publisher=peer(1)) for n in range(50)]
    others = [scored(LIVE, publisher=peer(number)) for number in (2, 3, 4)]
    for seed in range(20):
        drawn = draw_peers_first([*flood, *others], 4, random.Random(seed))
        assert Counter(each.group.publisher for each in drawn) == Counter(map(peer, (1, 2, 3, 4)))


def test_many_keys_of_one_prefix_are_drawn_as_often_as_one_key() -> None:
    flood = [
        replace(scored(LIVE, publisher=peer(n)), prefix="203.0.113.0/24") for n in range(10, 60)
    ]
    others = [replace(scored(LIVE, publisher=peer(n)), prefix=f"192.0.{n}.0/24") for n in (1, 2, 3)]
    for seed in range(20):
        drawn = draw_peers_first([*flood, *others], 4, random.Random(seed))
        assert sorted(each.prefix for each in drawn) == [
            "192.0.1.0/24",
            "192.0.2.0/24",
            "192.0.3.0/24",
            "203.0.113.0/24",
        ]
        more = draw_peers_first([*flood, *others], 9, random.Random(seed))
        assert len({each.group.publisher for each in more}) == 9


def test_drawing_uniformly_gives_every_group_the_same_chance() -> None:
    candidates = [scored(LIVE, index=n, publisher=peer(1 if n < 8 else 2)) for n in range(10)]
    rng = random.Random(0)
    picks = Counter(
        each.group.question.index
        for _ in range(2000)
        for each in draw_uniformly(candidates, 1, rng)
    )
    assert min(picks.values()) > 140
    assert max(picks.values()) < 260


def test_an_unknown_filter_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(UnknownFilter, match="nonzero-advantage"):
        load_filter("best", draw_rule("peers"))


def test_the_mix_leaves_local_groups_unfiltered_and_never_waits_for_external_ones() -> None:
    local = [scored(FAILED, source="local", index=n) for n in range(4)]
    external = [scored(LIVE), scored(FAILED)]
    mix = select(
        local,
        external,
        local_count=4,
        external_count=4,
        chosen_by=chosen_by("nonzero-advantage"),
        bounds=Refusing(),
        rng=random.Random(0),
    )
    assert sorted(each.group.question.index for each in mix.own) == [0, 1, 2, 3]
    assert list(mix.external) == [external[0]]


@dataclass
class Refusing:
    """Bounds that refuse what certain peers answered, for a reason."""

    reasons: dict[int, Refusal] = field(default_factory=dict)
    asked: int = 0

    def begin(self, own: object) -> None: ...

    def takes(self, scored: Scored) -> Refusal | None:
        self.asked += 1
        return self.reasons.get(scored.group.publisher[0])


def mixed(external: Sequence[Scored], bounds: Refusing, count: int = 5) -> Mix:
    return select(
        [],
        external,
        local_count=4,
        external_count=count,
        chosen_by=chosen_by("nonzero-advantage"),
        bounds=bounds,
        rng=random.Random(0),
    )


def test_what_is_refused_is_replaced_and_leaves_the_pool() -> None:
    external = [scored(LIVE, publisher=peer(n % 4), index=n) for n in range(12)]
    mix = mixed(external, Refusing({0: "peer", 1: "too_long"}), 6)
    assert {each.group.publisher[0] for each in mix.external} == {2, 3}
    assert len(mix.external) == 6
    # Of the peer whose share is used up nothing stays.
    assert Counter(each.group.publisher[0] for each in mix.refused)[0] == 3
    assert {each.group.publisher[0] for each in mix.refused} == {0, 1}


def test_a_prefix_whose_share_is_used_up_is_asked_for_once_however_many_groups_it_has() -> None:
    flood = [
        replace(scored(LIVE, publisher=peer(9), index=n), prefix="203.0.113.0/24")
        for n in range(1000)
    ]
    bounds = Refusing({9: "prefix"})
    mix = mixed([*flood, scored(LIVE, publisher=peer(1))], bounds)
    assert (len(mix.external), len(mix.refused)) == (1, 1000)
    assert bounds.asked <= 6


def test_where_all_peers_together_have_their_share_nothing_more_is_asked_and_all_wait() -> None:
    external = [scored(LIVE, publisher=peer(n), index=n) for n in range(50)]
    bounds = Refusing(dict.fromkeys(range(50), "external"))
    mix = mixed(external, bounds)
    assert (list(mix.external), list(mix.refused), bounds.asked) == ([], [], 1)


def test_a_mix_without_external_groups_asks_no_filter() -> None:
    class Untouchable:
        wants_dead = False

        def select(self, *_: object) -> list[Scored]:
            raise AssertionError

    mix = select(
        [scored(source="local")],
        [scored()],
        local_count=8,
        external_count=0,
        chosen_by=Untouchable(),
        bounds=Refusing(),
        rng=random.Random(0),
    )
    assert (len(mix.own), len(mix.external)) == (1, 0)


def test_a_full_pool_takes_from_the_peer_that_has_the_most() -> None:
    pool = Pool(capacity=3, age_seconds=10)
    first = scored(publisher=peer(1), index=1)
    assert pool.add(first) == []
    pool.add(scored(publisher=peer(1), index=2))
    pool.add(scored(publisher=peer(2)))
    assert pool.add(scored(publisher=peer(3))) == [first]
    assert len(pool) == 3


def test_groups_leave_the_pool_when_they_are_old_and_when_they_are_taken() -> None:
    pool = Pool(capacity=10, age_seconds=10)
    old, new = scored(received=0.0), scored(received=9.0)
    pool.add(old)
    pool.add(new)
    assert pool.fresh(now=10.0) == (old, new)
    assert pool.fresh(now=10.5) == (new,)
    pool.take([new])
    assert pool.fresh(now=10.5) == ()


def test_a_pool_has_room_for_what_its_capacity_leaves() -> None:
    pool = Pool(capacity=3, age_seconds=10)
    pool.add(scored(LIVE))
    pool.add(scored(FAILED))
    assert pool.room == 1
    pool.add(scored(LIVE))
    pool.add(scored(LIVE))
    assert pool.room == 0


def test_a_group_no_larger_than_ours_is_left_as_it_is() -> None:
    group = scored(LIVE)
    assert cut(group, 3, random.Random(0)) is group


def test_a_larger_group_is_cut_at_random_with_its_scores_and_stays_live() -> None:
    scores = (0.0,) * 15 + (1.0,)
    kept: set[tuple[str, ...]] = set()
    for seed in range(200):
        smaller = cut(scored(scores), 4, random.Random(seed))
        texts = tuple(completion.text for completion in smaller.group.completions)
        assert len(set(texts)) == 4
        assert smaller.scores == tuple(scores[int(text)] for text in texts)
        assert smaller.live
        kept.add(texts)
    assert len(kept) > 100
    assert {text for texts in kept for text in texts} == {str(number) for number in range(16)}


def test_a_dead_group_is_cut_as_well_and_stays_dead() -> None:
    smaller = cut(scored((1.0,) * 8), 2, random.Random(0))
    assert smaller.scores == (1.0, 1.0)


def test_cutting_is_the_same_for_the_same_seed() -> None:
    group = scored((1.0, 0.0) * 8)
    assert cut(group, 4, random.Random(3)) == cut(group, 4, random.Random(3))


def test_what_was_seen_or_spent_is_new_once_and_the_oldest_is_forgotten() -> None:
    remembered = Remembered(items=2, keys=2)
    assert [remembered.first_sight(data) for data in (b"a", b"a", b"b", b"c", b"a")] == [
        True,
        False,
        True,
        True,
        True,
    ]
    assert remembered.spend(peer(1), "bf", "easy", 0)
    assert not remembered.spend(peer(1), "bf", "easy", 0)
    for other in ((peer(2), "bf", "easy", 0), (peer(1), "bf", "easy", 1)):
        assert remembered.spend(*other)


def test_ten_thousand_keys_are_remembered_in_bounds_and_the_active_ones_stay() -> None:
    remembered = Remembered(items=100, keys=100)
    for number in range(10_000):
        key = number.to_bytes(32, "big")
        remembered.first_sight(key)
        remembered.spend(key, "bf", "easy", 0)
        remembered.accept(key, 1, b"a" * 32)
        remembered.accept(peer(255), number, b"b" * 32)
    assert len(remembered) == 300
    assert remembered.window(peer(255)).check(9_999, b"b" * 32) == "duplicate"
    assert len(remembered.changed_windows()) == 100


def test_replay_windows_survive_a_restart_and_damaged_ones_are_left_out() -> None:
    remembered, again = Remembered(), Remembered()
    remembered.accept(peer(1), 7, b"a" * 32)
    remembered.accept(peer(2), 7, b"a" * 32)
    saved = dict(remembered.changed_windows())
    assert set(saved) == {peer(1), peer(2)}
    assert remembered.changed_windows() == {}
    saved[peer(2)] = saved[peer(2)][:-1]
    assert again.restore_windows(saved) == 1
    assert again.window(peer(1)).check(7, b"b" * 32) == "equivocation"
    assert again.window(peer(2)).check(7, b"b" * 32) == "fresh"
    assert again.changed_windows() == {}
