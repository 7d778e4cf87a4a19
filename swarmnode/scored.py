"""From groups to scored groups, through the scorer process: the reward function ρ of a node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from swarmnode.clock import Clock
from swarmnode.rewards.client import Scorer
from swarmnode.selection.admission import Reason
from swarmnode.types import Group, Scored


class NodeRewards:
    """Scores a node's own groups and those of peers."""

    def __init__(self, scorer: Scorer, clock: Clock, seconds: Callable[[], float]) -> None:
        self._scorer = scorer
        self._clock = clock
        self._seconds = seconds
        self.unscored: Counter[str] = Counter()
        """Own groups that could not be judged since the start, by reason."""

    async def score(self, groups: Sequence[Group]) -> Sequence[Scored]:
        """Score own groups; one that our scorer cannot judge is counted and scores 0."""
        verdicts = await self._clock.work(self._seconds(), self._scorer.score(groups))
        now = self._clock.now()
        self.unscored.update(verdict.rejection for verdict in verdicts if verdict.rejection)
        return [
            Scored(group, verdict.scores, "local", now)
            for group, verdict in zip(groups, verdicts, strict=True)
        ]

    async def score_external(
        self, groups: Sequence[Group], prefix: str
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        """Score peers' groups whose question regenerates; reasons of all others.

        `prefix` is where their author is connected to us from.
        """
        verdicts = await self._clock.work(self._seconds(), self._scorer.score(groups))
        now = self._clock.now()
        scored: list[Scored] = []
        reasons: list[Reason] = []
        for group, verdict in zip(groups, verdicts, strict=True):
            if verdict.rejection is None:
                scored.append(Scored(group, verdict.scores, "external", now, prefix=prefix))
            else:
                reasons.append(Reason(verdict.rejection))
        return scored, reasons
