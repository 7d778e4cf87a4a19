"""Where the control arms of a study get their external groups from, instead of from peers.

Both put groups into the node's pool under the same rules as a peer's: marked external, their text
encoded anew, chosen by the same filter. So an arm differs from sharing in one thing alone: who
answered. Nothing here touches the network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from swarmnode.clock import Clock
from swarmnode.selection.admission import Reason
from swarmnode.selection.pool import Pool
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored

REFERENCE_POLICY = PolicyInfo("reference answers", 0, b"")


class OwnPast:
    """Replays a node's own live groups: takes what a round would share, and pools it for later.

    What a round hands over is pooled when the next one does, so that no group is trained on as
    fresh and as replayed in one step.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._last: Sequence[Scored] = ()
        self.dropped: Counter[Reason] = Counter()
        self.counts: Counter[str] = Counter()

    def put(self, groups: Sequence[Scored]) -> None:
        """Keep the live ones of these; pool those of the call before."""
        for scored in self._last:
            self._pool.add(scored)
        self.counts["admitted"] += len(self._last)
        self._last = [replace(scored, source="external") for scored in groups if scored.live]

    async def run(self) -> None:
        """Nothing has to be looked for."""


class Questions(Protocol):
    """A question stream that nobody else draws from."""

    async def draw(self, weights: Mapping[str, float], count: int) -> Sequence[Question]:
        """`count` new questions."""


class ExternalRewards(Protocol):
    """Scores groups as it does those of peers."""

    async def score_external(
        self, groups: Sequence[Group], prefix: str
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        """The groups that hold, scored; reasons of the others. `prefix` is their author's."""


class ReferenceAnswers:
    """Keeps the pool full of new questions with their right answers: a ceiling for any peer.

    Half of a group's completions are the reference answer and half are empty, so that the group is
    live and its right ones have an advantage of about 1. `publisher` owns the stream of questions.
    """

    def __init__(
        self,
        *,
        publisher: bytes,
        questions: Questions,
        weights: Mapping[str, float],
        completions: int,
        rewards: ExternalRewards,
        pool: Pool,
        clock: Clock,
        every_seconds: float,
    ) -> None:
        self._publisher = publisher
        self._questions = questions
        self._weights = weights
        self._completions = completions
        self._rewards = rewards
        self._pool = pool
        self._clock = clock
        self._every_seconds = every_seconds
        self.dropped: Counter[Reason] = Counter()
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        """Fill the pool again and again, until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(self._every_seconds)

    async def look(self) -> None:
        """Fill the pool."""
        self._pool.fresh(self._clock.now())
        if self._pool.room == 0:
            return
        questions = await self._questions.draw(self._weights, self._pool.room)
        groups = [self._answered(question) for question in questions]
        scored, reasons = await self._rewards.score_external(groups, "")
        self.dropped.update(reasons)
        self.counts["admitted"] += len(scored)
        for each in scored:
            self._pool.add(each)

    def _answered(self, question: Question) -> Group:
        right = Completion(question.answer, "stop", token_count=0)
        wrong = Completion("", "stop", token_count=0)
        half = self._completions // 2
        completions = (right,) * half + (wrong,) * (self._completions - half)
        return Group(question, completions, self._publisher, REFERENCE_POLICY)
