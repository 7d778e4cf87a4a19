"""The node's own question streams: which indices were spent, and the next questions to ask."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from swarmnode.clock import Clock
from swarmnode.rewards.client import Scorer
from swarmnode.types import Question


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
    ) -> None:
        self._scorer = scorer
        self._public_key = public_key
        self._levels = levels
        self._clock = clock
        self._seconds = seconds
        self._rng = rng
        self._next_index = dict.fromkeys(levels, 0)

    async def draw(self, weights: Mapping[str, float], count: int) -> Sequence[Question]:
        """`count` new questions; tasks are drawn with replacement by their weights."""
        tasks = self._rng.choices(list(weights), list(weights.values()), k=count)
        return await self._clock.work(self._seconds(), self._drawn(Counter(tasks)))

    async def _drawn(self, counts: Counter[str]) -> Sequence[Question]:
        questions: list[Question] = []
        for task, count in counts.items():
            drawn, self._next_index[task] = await self._scorer.draw(
                self._public_key, task, self._levels[task], self._next_index[task], count
            )
            questions += drawn
        return questions
