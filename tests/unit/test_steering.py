"""Steering: the shares of tasks decide of which tasks external groups are chosen."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from swarmnode.config.rounds import Rounds
from swarmnode.config.scheduling import Scheduling
from swarmnode.config.selection import Selection
from swarmnode.round import learn
from swarmnode.scheduling.tasks import TaskScheduler
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.selection.filters import Filter, draw_uniformly, load_filter
from swarmnode.selection.mix import select
from swarmnode.selection.pool import Pool
from swarmnode.selection.steering import Steered, Turns, steered_filter
from swarmnode.types import Scored, Trained
from tests.unit.learning_parts import Learner, learning_parts
from tests.unit.made import scored

LIVE, SOLVED = (1.0, 0.0, 0.0), (1.0, 1.0, 1.0)
NAMES = ["nonzero-advantage", "uniform", "top-reward", "learnability", "fresh", "balanced"]
SHARES = {"a": 0.7, "b": 0.2, "c": 0.1}


def peer(number: int) -> bytes:
    return bytes([number]) * 32


def pool_of(tasks: Mapping[str, int]) -> list[Scored]:
    """So many live groups of each task, all of different peers."""
    names = [task for task, count in tasks.items() for _ in range(count)]
    return [scored(LIVE, task=task, index=n, publisher=peer(n + 1)) for n, task in enumerate(names)]


def begun(
    candidates: Sequence[Scored],
    shares: Mapping[str, float] = SHARES,
    name: str = "nonzero-advantage",
) -> Steered:
    steered = steered_filter(name, "peers", lambda: shares)
    steered.begin(candidates)
    return steered


def taken(candidates: Sequence[Scored], count: int, steered: Steered, rounds: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(rounds):
        steered.begin(candidates)
        picked = steered.select(candidates, count, random.Random(seed))
        counts.update(each.group.question.task for each in picked)
    return counts


@pytest.mark.parametrize("name", NAMES)
def test_with_every_filter_tasks_are_taken_by_their_shares(name: str) -> None:
    candidates = pool_of({"a": 10, "b": 10, "c": 10})
    counts = taken(candidates, 4, begun(candidates, name=name), 500)
    for task, share in SHARES.items():
        assert counts[task] / counts.total() == pytest.approx(share, abs=0.04)


def test_a_filter_alone_takes_tasks_as_the_pool_has_them() -> None:
    candidates = pool_of({"a": 2, "b": 10, "c": 18})
    alone = load_filter("nonzero-advantage", draw_uniformly)
    picked = [
        each for seed in range(300) for each in alone.select(candidates, 4, random.Random(seed))
    ]
    counts = Counter(each.group.question.task for each in picked)
    assert counts["a"] / counts.total() == pytest.approx(2 / 30, abs=0.03)
    steered = taken(candidates, 1, begun(candidates), 300)
    assert steered["a"] / steered.total() == pytest.approx(0.7, abs=0.08)


def test_a_filters_own_choice_among_the_groups_of_a_task_is_kept() -> None:
    easy = scored(SOLVED, task="a", publisher=peer(1))
    hard = scored(LIVE, task="a", publisher=peer(2))
    others = [scored(SOLVED, task="b", publisher=peer(n)) for n in (3, 4)]
    for seed in range(20):
        candidates = [hard, easy, *others]
        top = begun(candidates, {"a": 1.0}, "top-reward")
        assert top.select(candidates, 1, random.Random(seed)) == [easy]
        live = begun(candidates, {"a": 1.0, "b": 1.0})
        assert live.select(candidates, 4, random.Random(seed)) == [hard]


def test_the_place_of_a_task_that_the_pool_lacks_goes_to_the_others_by_their_shares() -> None:
    candidates = pool_of({"b": 10, "c": 10})
    counts = taken(candidates, 3, begun(candidates), 500)
    assert counts.total() == 1500
    assert counts["b"] / counts.total() == pytest.approx(2 / 3, abs=0.05)
    dead = [replace(each, scores=SOLVED) for each in pool_of({"a": 10})]
    assert taken([*dead, *candidates], 3, begun([*dead, *candidates]), 20).keys() == {"b", "c"}


def test_places_stay_empty_where_nothing_has_a_share_and_no_group_comes_twice() -> None:
    candidates = pool_of({"a": 2, "d": 5})
    picked = begun(candidates, {"a": 1.0, "d": 0.0}).select(candidates, 4, random.Random(0))
    assert [each.group.question.task for each in picked] == ["a", "a"]
    assert picked[0] is not picked[1]
    assert begun([]).select([], 4, random.Random(0)) == []


def test_nobody_has_a_second_place_before_all_who_have_the_task_had_one() -> None:
    everything = [
        replace(scored(LIVE, task=task, index=n, publisher=peer(9 + n)), prefix="203.0.113.0/24")
        for task in "abc"
        for n in range(10)
    ]
    others = [
        replace(scored(LIVE, task=task, publisher=peer(n)), prefix=f"192.0.{n}.0/24")
        for n, task in enumerate("abc", 1)
    ]
    candidates = [*everything, *others]
    equal = dict.fromkeys("abc", 1 / 3)
    for seed in range(50):
        picked = begun(candidates, equal).select(candidates, 4, random.Random(seed))
        flood = [n for n, each in enumerate(picked) if each in everything]
        had: set[str] = set()
        for place, each in enumerate(picked):
            if place in flood and "203.0.113.0/24" in had:
                task = each.group.question.task
                rival = next(other for other in others if other.group.question.task == task)
                assert rival.prefix in had
            had.add(each.prefix)


def test_a_refused_group_is_replaced_by_shares_too_and_bounds_are_kept() -> None:
    candidates = pool_of({"a": 6, "b": 6, "c": 6})
    refused = {id(each) for each in candidates[:3]}

    class Bounds:
        def begin(self, own: object) -> None: ...

        def takes(self, scored: Scored) -> str | None:
            return "too_long" if id(scored) in refused else None

    mix = select(
        [],
        candidates,
        local_count=0,
        external_count=6,
        chosen_by=begun(candidates, {"a": 1.0, "b": 0.0, "c": 0.0}),
        bounds=Bounds(),  # type: ignore[arg-type]  # says so by a text
        rng=random.Random(0),
    )
    assert {id(each) for each in mix.external} == {id(each) for each in candidates[3:6]}
    assert {id(each) for each in mix.refused} == refused


class Taught(Learner):
    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        return [[2] * len(each.scores) for each in groups]

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        return Trained({}, [])


def round_metrics(steered: Steered | None, candidates: Sequence[Scored]) -> Mapping[str, float]:
    pool = Pool(capacity=100, age_seconds=1e12)
    for each in candidates:
        pool.add(each)
    rounds = Rounds(local_groups_per_round=2, external_groups_per_round=2)
    bounds = ExternalBounds(Selection(), use="on", share=1.0, positive=True, longest=20)
    chosen_by: Filter = load_filter("nonzero-advantage", draw_uniformly)
    parts = replace(learning_parts(Taught(), rounds, pool, chosen_by, bounds), steered=steered)
    local = [scored(LIVE, source="local", task="a", index=n) for n in range(2)]
    return asyncio.run(learn(parts, 1, local)).metrics


def test_a_round_is_steered_by_the_shares_its_own_questions_were_drawn_by_and_tells_it() -> None:
    settings = Scheduling(kind="static", static_weights=(1, 0, 0), minimum_share=0.0)
    scheduler = TaskScheduler(settings, tuple(SHARES))
    asyncio.run(scheduler.weights())
    steered = steered_filter("nonzero-advantage", "peers", lambda: scheduler.shares)
    metrics = round_metrics(steered, pool_of({"a": 3, "b": 20}))
    assert metrics["steering/wanted/a"] == metrics["steering/taken/a"] == 1.0
    assert metrics["steering/taken/b"] == metrics["steering/wanted/c"] == 0.0
    assert metrics["steering/offered"] == 1.0
    assert round_metrics(steered, pool_of({"b": 3}))["steering/offered"] == 0.0
    assert not any(name.startswith("steering/taken") for name in round_metrics(steered, ()))


def test_a_round_that_is_not_steered_tells_nothing_of_it() -> None:
    metrics = round_metrics(None, pool_of({"a": 3}))
    assert not any(name.startswith("steering/") for name in metrics)


def test_turns_without_a_taker_are_the_draw_rule_itself() -> None:
    candidates = pool_of({"a": 5})
    turns = Turns()
    first = turns(candidates, 5, random.Random(1))
    turns.took(first[0])
    assert turns(candidates, 5, random.Random(1))[-1] is first[0]
    turns.begin()
    assert turns(candidates, 5, random.Random(1)) == first
