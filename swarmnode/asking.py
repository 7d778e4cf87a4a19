"""The node's own question streams: which indices were spent, and the next questions to ask.

Knows no disk. Invariant: no question leaves here whose index was not reserved before, so that a
node that is killed at any moment never asks it again: what a block had left is given up.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from swarmnode.clock import Clock
from swarmnode.rewards.client import Scorer
from swarmnode.types import Question

BLOCK_INDICES = 256


class ReserveIndices(Protocol):
    """Sets indices of this node's streams aside."""

    async def __call__(self, task: str, level: str, count: int) -> int:
        """The first of `count` indices in a row that nobody else is given, ever.

        They count as spent from the return on, whatever happens to this process.
        """


class MemoryIndices:
    """Indices from 0 on, for one life: right for keys that live no longer, as in a simulation."""

    def __init__(self) -> None:
        self._next: defaultdict[tuple[str, str], int] = defaultdict(int)

    async def __call__(self, task: str, level: str, count: int) -> int:
        """As ReserveIndices says, while this object lives."""
        first = self._next[task, level]
        self._next[task, level] += count
        return first


@dataclass(slots=True)
class _Block:
    """Indices of one stream that are reserved and not yet used: `next` to `end` - 1."""

    next: int
    end: int


class QuestionStreams:
    """Draws tasks by weight and each task's questions in the order of its stream.

    An index is spent once per key, task and level, whatever becomes of its question.
    """

    def __init__(
        self,
        *,
        scorer: Scorer,
        public_key: bytes,
        levels: Mapping[str, str],
        clock: Clock,
        seconds: Callable[[], float],
        rng: random.Random,
        reserve: ReserveIndices | None = None,
    ) -> None:
        """Without `reserve`, indices start at 0 and are forgotten with this object."""
        self._scorer = scorer
        self._public_key = public_key
        self._levels = levels
        self._clock = clock
        self._seconds = seconds
        self._rng = rng
        self._reserve = reserve or MemoryIndices()
        self._blocks: dict[str, _Block] = {}
        self._drawing = asyncio.Lock()

    async def draw(self, weights: Mapping[str, float], count: int) -> Sequence[Question]:
        """`count` new questions; tasks are drawn with replacement by their weights."""
        tasks = self._rng.choices(list(weights), list(weights.values()), k=count)
        return await self._clock.work(self._seconds(), self._drawn(Counter(tasks)))

    async def _drawn(self, counts: Counter[str]) -> Sequence[Question]:
        questions: list[Question] = []
        # Several may draw at once, and none may be given what another one is just given.
        async with self._drawing:
            for task, count in counts.items():
                questions += await self._next_questions(task, count)
        return questions

    async def _next_questions(self, task: str, count: int) -> Sequence[Question]:
        level = self._levels[task]
        block = self._blocks.get(task)
        if block is None:
            block = self._blocks[task] = await self._reserved(task, BLOCK_INDICES)
        while True:
            drawn, following = await self._scorer.draw(
                self._public_key, task, level, block.next, count
            )
            # A stream has gaps (held-out questions): only now is known how far this draw reached.
            while block.end < following:
                # Enough for the whole draw, should it have to be made again elsewhere.
                wanted = 2 * (following - block.next)
                more = await self._reserved(task, max(BLOCK_INDICES, wanted))
                if more.next != block.end:
                    block = self._blocks[task] = more
                    break
                block.end = more.end
            else:
                block.next = following
                return drawn

    async def _reserved(self, task: str, count: int) -> _Block:
        first = await self._reserve(task, self._levels[task], count)
        return _Block(first, first + count)
