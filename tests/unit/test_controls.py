"""The control arms of a study: own past, and reference answers, in place of peers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from swarmnode.clock import SystemClock
from swarmnode.controls import OwnPast, ReferenceAnswers
from swarmnode.selection.admission import Reason
from swarmnode.selection.pool import Pool
from swarmnode.types import Group, Question, Scored
from tests.unit.made import group, scored


def test_own_past_pools_live_groups_one_round_later_and_as_external_ones() -> None:
    pool = Pool(capacity=10, age_seconds=1e12, replay=True)
    past = OwnPast(pool)
    past.put([scored((1.0, 0.0), index=1, source="local"), scored((0.0, 0.0), source="local")])
    assert len(pool) == 0
    past.put([scored((0.0, 1.0), index=2, source="local")])
    (replayed,) = pool.fresh(0.0)
    assert (replayed.group.question.index, replayed.source) == (1, "external")
    assert past.counts["admitted"] == 1


def test_a_replay_pool_gives_a_group_again_until_newer_ones_push_it_out() -> None:
    pool = Pool(capacity=2, age_seconds=1e12, replay=True)
    groups = [scored((1.0, 0.0), index=index) for index in range(3)]
    pool.add(groups[0])
    pool.add(groups[1])
    pool.take([groups[0]])
    assert pool.fresh(0.0) == (groups[0], groups[1])
    assert pool.add(groups[2]) == [groups[0]]


class Answers:
    """A stream of questions, and a verifier that takes the reference answer alone."""

    def __init__(self) -> None:
        self.asked = 0

    async def draw(self, weights: Mapping[str, float], count: int) -> Sequence[Question]:
        assert weights == {"basic_arithmetic": 1.0}
        first, self.asked = self.asked, self.asked + count
        return [group(index=first + place).question for place in range(count)]

    async def score_external(
        self, groups: Sequence[Group], prefix: str
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        kept = [each for each in groups if each.question.index != 1]
        return [
            Scored(
                each,
                tuple(float(one.text == each.question.answer) for one in each.completions),
                "external",
                0.0,
            )
            for each in kept
        ], [Reason.UNSCORABLE] * (len(groups) - len(kept))


def reference_answers(answers: Answers, pool: Pool) -> ReferenceAnswers:
    return ReferenceAnswers(
        publisher=b"r" * 32,
        questions=answers,
        weights={"basic_arithmetic": 1.0},
        completions=8,
        rewards=answers,
        pool=pool,
        clock=SystemClock(),
        every_seconds=1.0,
    )


def test_reference_answers_fill_the_pool_with_live_groups_of_new_questions() -> None:
    answers, pool = Answers(), Pool(capacity=4, age_seconds=1e12)
    source = reference_answers(answers, pool)
    asyncio.run(source.look())
    assert [each.group.question.index for each in pool.fresh(0.0)] == [0, 2, 3]
    assert all(each.pass_rate == 0.5 for each in pool.fresh(0.0))
    assert source.dropped == {Reason.UNSCORABLE: 1}
    asyncio.run(source.look())
    assert len(pool) == 4
    asyncio.run(source.look())
    assert answers.asked == 5


def test_a_reference_answer_is_marked_as_nobodys_policy() -> None:
    pool = Pool(capacity=1, age_seconds=1e12)
    asyncio.run(reference_answers(Answers(), pool).look())
    (held,) = pool.fresh(0.0)
    assert held.group.publisher == b"r" * 32
    assert held.group.policy.tokenizer_fingerprint == b""
