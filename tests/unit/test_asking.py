"""Question streams: every index is reserved before its question leaves, and given once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from swarmnode.asking import BLOCK_INDICES, MemoryIndices, QuestionStreams
from swarmnode.clock import SystemClock
from swarmnode.config.rewards import Rewards
from swarmnode.process import Child
from swarmnode.rewards.client import Scorer
from swarmnode.types import Question

LEVELS = {"bf": "easy", "gcd": "default"}
WEIGHTS = {"bf": 0.5, "gcd": 0.5}


class GappyScorer(Scorer):
    """Streams that have a question at every index that 10 doesn't divide."""

    def __init__(self) -> None:
        super().__init__(Child("unused", name="unused"), Rewards())
        self.calls: list[tuple[str, int, int]] = []

    async def draw(
        self, public_key: bytes, task: str, level: str, start: int, count: int
    ) -> tuple[list[Question], int]:
        self.calls.append((task, start, count))
        indices = [index for index in range(start, start + 2 * count + 10) if index % 10][:count]
        return [Question(task, level, index, "", "") for index in indices], indices[-1] + 1


class JumpingIndices:
    """Blocks that leave a hole after each, as another process in between would."""

    def __init__(self) -> None:
        self.blocks: list[range] = []

    async def __call__(self, task: str, level: str, count: int) -> int:
        first = self.blocks[-1].stop + 1000 if self.blocks else 7
        self.blocks.append(range(first, first + count))
        return first


def streams(scorer: GappyScorer, reserve: MemoryIndices | JumpingIndices | None) -> QuestionStreams:
    return QuestionStreams(
        scorer=scorer,
        public_key=bytes(32),
        levels=LEVELS,
        clock=SystemClock(),
        seconds=lambda: 0.0,
        rng=random.Random(0),
        reserve=reserve,
    )


async def drawn(asking: QuestionStreams, counts: Sequence[int]) -> list[Question]:
    return [question for count in counts for question in await asking.draw(WEIGHTS, count)]


def test_without_a_store_indices_start_at_zero_and_are_drawn_in_one_call_a_task() -> None:
    scorer = GappyScorer()
    questions = asyncio.run(drawn(streams(scorer, None), [400, 400]))
    for task in LEVELS:
        indices = [question.index for question in questions if question.task == task]
        assert indices == [index for index in range(indices[-1] + 1) if index % 10]
        assert next(start for called, start, _ in scorer.calls if called == task) == 0
    assert len(scorer.calls) == 4


@given(counts=st.lists(st.integers(1, 3 * BLOCK_INDICES), max_size=6))
def test_no_question_leaves_whose_index_was_not_reserved(counts: list[int]) -> None:
    reserve = JumpingIndices()
    questions = asyncio.run(drawn(streams(GappyScorer(), reserve), counts))
    spent = [(question.task, question.index) for question in questions]
    assert len(spent) == len(set(spent)) == sum(counts)
    reserved = {index for block in reserve.blocks for index in block}
    assert {question.index for question in questions} <= reserved


def test_what_is_left_of_a_block_is_given_up_with_the_process() -> None:
    reserve = MemoryIndices()

    async def two_lives() -> tuple[list[Question], list[Question]]:
        first = await drawn(streams(GappyScorer(), reserve), [20])
        return first, await drawn(streams(GappyScorer(), reserve), [20])

    first, second = asyncio.run(two_lives())
    assert max(question.index for question in first) < BLOCK_INDICES
    assert min(question.index for question in second) >= BLOCK_INDICES


def test_two_that_draw_at_once_are_never_given_the_same_question() -> None:
    class WaitingScorer(GappyScorer):
        async def draw(
            self, public_key: bytes, task: str, level: str, start: int, count: int
        ) -> tuple[list[Question], int]:
            await asyncio.sleep(0)
            return await super().draw(public_key, task, level, start, count)

    async def scenario() -> list[tuple[str, int]]:
        own = streams(WaitingScorer(), MemoryIndices())
        drawn = await asyncio.gather(*(own.draw(WEIGHTS, 5) for _ in range(6)))
        return [(each.task, each.index) for questions in drawn for each in questions]

    asked = asyncio.run(scenario())
    assert len(set(asked)) == len(asked) == 30
