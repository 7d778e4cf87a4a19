"""The round: Algorithm 1 with parts that only remember what was asked of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from swarmnode.clock import SystemClock
from swarmnode.config.policy import External
from swarmnode.config.rounds import Rounds
from swarmnode.config.selection import Selection
from swarmnode.round import Parts, produce, run_round, shared
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.selection.filters import NonzeroAdvantage, draw_peers_first
from swarmnode.selection.pool import Pool
from swarmnode.types import Group, Question, Scored, Trained, TrainedGroup
from tests.unit.made import group, scored


@dataclass
class Everything:
    """All parts in one object that keeps a diary."""

    diary: list[str] = field(default_factory=list)
    trained: list[Scored] = field(default_factory=list)
    published: list[Scored] = field(default_factory=list)
    watched: list[Scored] = field(default_factory=list)
    permits: bool = True
    tokens: int = 2
    """Of every completion of a peer, in our own tokenizer."""

    async def weights(self) -> Mapping[str, float]:
        self.diary.append("weights")
        return {"basic_arithmetic": 1.0}

    async def update(self, local: Sequence[Scored]) -> Mapping[str, float]:
        self.diary.append("update")
        return {"scheduler/weight/basic_arithmetic": 1.0}

    async def draw(self, weights: Mapping[str, float], count: int) -> Sequence[Question]:
        self.diary.append(f"draw {count}")
        return [group(index=index).question for index in range(count)]

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        self.diary.append(f"generate {completions}")
        return [
            replace(group(texts=["1"] * completions), question=question) for question in questions
        ]

    async def score(self, groups: Sequence[Group]) -> Sequence[Scored]:
        self.diary.append("score")
        return [
            Scored(each, (1.0,) + (0.0,) * (len(each.completions) - 1), "local", 0.0)
            if each.question.index % 2
            else Scored(each, (0.0,) * len(each.completions), "local", 0.0)
            for each in groups
        ]

    def put(self, groups: Sequence[Scored]) -> None:
        self.diary.append("publish")
        self.published = list(groups)

    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        return [[self.tokens] * len(each.scores) for each in groups]

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        self.diary.append("train")
        self.trained = list(groups)
        self.watched = list(watched)
        return Trained({"loss": 0.5}, [TrainedGroup("own", "gcd", "none", "own samples")])

    def watch(self, groups: Sequence[Scored]) -> Mapping[str, float]:
        return {"answers/common_share/basic_arithmetic": float(len(groups))}

    def permitted(self, groups: Sequence[Scored]) -> Sequence[Scored] | None:
        return groups if self.permits else None

    def heard(self, metrics: Mapping[str, float] | None) -> Mapping[str, float]:
        return {"guard/skipped": float(metrics is None)}


def node(
    parts: Everything,
    rounds: Rounds,
    pool: Pool | None = None,
    *,
    use: External = "on",
    longest: int = 20,
) -> Parts:
    return Parts(
        number=3,
        rounds=rounds,
        scheduler=parts,
        questions=parts,
        policy=parts,
        rewards=parts,
        outgoing=parts,
        pool=pool or Pool(capacity=100, age_seconds=1e12),
        chosen_by=NonzeroAdvantage(draw_peers_first),
        bounds=ExternalBounds(
            Selection(),
            use=use,
            share=Selection().external_share(rounds),
            positive=True,
            longest=longest,
        ),
        guard_rails=parts,
        clock=SystemClock(),
        rng=random.Random(0),
    )


def test_a_round_goes_through_algorithm_1_in_order() -> None:
    parts = Everything()
    rounds = Rounds(local_groups_per_round=2, external_groups_per_round=2, completions_per_group=4)
    asyncio.run(run_round(node(parts, rounds), 1))
    assert parts.diary == [
        "weights",
        "draw 2",
        "generate 4",
        "score",
        "publish",
        "train",
        "update",
    ]


def test_the_training_set_holds_own_groups_and_live_external_ones_and_each_external_one_once() -> (
    None
):
    parts, pool = Everything(), Pool(capacity=100, age_seconds=1e12)
    for index in range(3):
        pool.add(scored((1.0, 0.0), index=index))
    pool.add(scored((0.0, 0.0), index=9))
    rounds = Rounds(local_groups_per_round=2, external_groups_per_round=2)
    report = asyncio.run(run_round(node(parts, rounds, pool), 1))
    assert [each.source for each in parts.trained] == ["local"] * 2 + ["external"] * 2
    assert len(pool) == 2
    assert report.metrics["mix/external_groups"] == 2
    assert report.metrics["loss"] == 0.5
    assert [each.task for each in report.trained] == ["gcd"]
    assert report.metrics["scheduler/weight/basic_arithmetic"] == 1.0
    assert (report.node, report.round) == (3, 1)
    second = asyncio.run(run_round(node(parts, rounds, pool), 2))
    assert second.metrics["mix/external_groups"] == 1


def test_groups_that_are_longer_in_our_tokens_are_not_trained_on_and_leave_the_pool() -> None:
    parts, pool = Everything(tokens=21), Pool(capacity=100, age_seconds=1e12)
    for index in range(3):
        pool.add(scored((1.0, 0.0), index=index))
    report = asyncio.run(run_round(node(parts, Rounds(), pool), 1))
    assert [each.source for each in parts.trained] == ["local"] * 4
    assert report.metrics["mix/refused/too_long"] == 3
    assert len(pool) == 0
    assert report.training_set.mean == report.local.mean


@pytest.mark.parametrize("use", ["monitor", "on"])
def test_a_node_that_monitors_chooses_and_measures_and_trains_on_its_own_groups_alone(
    use: External,
) -> None:
    parts, pool = Everything(), Pool(capacity=100, age_seconds=1e12)
    for index in range(6):
        pool.add(scored((1.0, 0.0), index=index, publisher=bytes([index]) * 32))
    report = asyncio.run(run_round(node(parts, Rounds(), pool, use=use), 1))
    trained = [each for each in parts.trained if each.source == "external"]
    assert (len(trained), len(parts.watched)) == ((4, 0) if use == "on" else (0, 4))
    assert report.metrics["mix/watched_groups"] == len(parts.watched)
    assert report.metrics["mix/external_groups"] == len(trained) == len(report.sources)
    assert report.metrics["mix/external_token_share"] > 0.0
    assert len(pool) == 2


def test_a_mix_of_two_and_six_is_allowed_what_it_asks_for_unless_something_is_set() -> None:
    assert Selection().external_share(Rounds()) == 0.5
    assert Selection().external_share(Rounds(local_groups_per_round=8)) == 0.5
    more = Rounds(local_groups_per_round=2, external_groups_per_round=6)
    assert Selection().external_share(more) == 0.75
    assert Selection(external_token_share=0.4).external_share(more) == 0.4


def test_local_reward_is_taken_before_the_mix_and_the_training_sets_after_it() -> None:
    parts, pool = Everything(), Pool(capacity=100, age_seconds=1e12)
    pool.add(scored((1.0, 1.0, 0.0, 0.0)))
    rounds = Rounds(local_groups_per_round=2, external_groups_per_round=1, completions_per_group=4)
    report = asyncio.run(run_round(node(parts, rounds, pool), 1))
    assert report.local.mean == pytest.approx(1 / 8)
    assert report.training_set.mean == pytest.approx((1 + 2) / 12)


def test_more_questions_than_local_groups_are_all_published_and_counted_but_not_all_trained() -> (
    None
):
    parts = Everything()
    rounds = Rounds(local_groups_per_round=2, external_groups_per_round=0, questions_per_round=6)
    asyncio.run(run_round(node(parts, rounds), 1))
    assert (len(parts.published), len(parts.trained)) == (6, 2)


def test_what_is_shared_follows_the_share_setting() -> None:
    parts = Everything()
    local = asyncio.run(produce(node(parts, Rounds(local_groups_per_round=4))))
    assert len(shared(local, "all")) == 4
    assert [each.group.question.index for each in shared(local, "live")] == [1, 3]
    assert list(shared(local, "none")) == []


def test_the_guard_rail_sees_every_own_group_whatever_is_trained_on() -> None:
    rounds = Rounds(local_groups_per_round=2, external_groups_per_round=0, questions_per_round=6)
    report = asyncio.run(run_round(node(Everything(), rounds), 1))
    assert report.metrics["answers/common_share/basic_arithmetic"] == 6


def test_a_guard_rail_that_permits_no_step_costs_the_step_alone() -> None:
    rounds = Rounds(local_groups_per_round=2, external_groups_per_round=0)
    parts = Everything(permits=False)
    report = asyncio.run(run_round(node(parts, rounds), 1))
    assert parts.diary[-2:] == ["publish", "update"]
    assert len(parts.published) == 2
    assert report.metrics["guard/skipped"] == 1.0
    assert report.metrics["mix/local_groups"] == 2
    assert "loss" not in report.metrics


def test_what_was_generated_is_counted_whether_live_and_trained_on_or_not() -> None:
    rounds = Rounds(
        local_groups_per_round=2,
        external_groups_per_round=0,
        questions_per_round=6,
        completions_per_group=4,
    )
    report = asyncio.run(run_round(node(Everything(), rounds), 1))
    assert report.metrics["generated/groups"] == 6
    assert report.metrics["generated/live_groups"] == 3
    assert report.metrics["generated/tokens"] == 6 * 4 * 2


def test_dynamic_sampling_asks_on_until_enough_groups_are_live_and_trains_on_these() -> None:
    parts = Everything()
    rounds = Rounds(
        local_groups_per_round=3,
        external_groups_per_round=0,
        questions_per_round=4,
        dynamic_sampling=True,
    )
    report = asyncio.run(run_round(node(parts, rounds), 1))
    assert parts.diary.count("draw 4") == 2
    assert len(parts.published) == 8
    assert [each.live for each in parts.trained] == [True] * 3
    assert report.metrics["generated/groups"] == 8
    assert report.local.mean == pytest.approx(1 / 16)


def test_dynamic_sampling_gives_up_at_its_limit() -> None:
    parts = Everything()
    rounds = Rounds(
        local_groups_per_round=30,
        external_groups_per_round=0,
        questions_per_round=4,
        dynamic_sampling=True,
        questions_limit=10,
    )
    asyncio.run(run_round(node(parts, rounds), 1))
    assert len(parts.published) == 12
    assert len(parts.trained) == 6
