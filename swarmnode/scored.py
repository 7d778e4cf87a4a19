"""From groups to scored groups, through the scorer process: the reward function ρ of a node."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from swarmnode.clock import Clock
from swarmnode.rewards.budget import ScorerBudget
from swarmnode.rewards.client import Scorer, Verdict
from swarmnode.selection.admission import Reason
from swarmnode.types import Group, Scored


class NodeRewards:
    """Scores a node's own groups and those of peers.

    `seconds` gives the declared duration of a call to the scorer, 0.0 in real time.
    """

    def __init__(
        self, scorer: Scorer, clock: Clock, seconds: Callable[[], float], budget: ScorerBudget
    ) -> None:
        self._scorer = scorer
        self._clock = clock
        self._seconds = seconds
        self._budget = budget
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

        `prefix` is where their author is connected to us from, and what pays for them; empty for
        groups that we made up ourselves, which cost nothing.
        """
        verdicts = await self._within_budget(groups, prefix)
        now = self._clock.now()
        scored: list[Scored] = []
        reasons: list[Reason] = []
        for group, verdict in zip(groups, verdicts, strict=True):
            if verdict.rejection is None:
                scored.append(Scored(group, verdict.scores, "external", now, prefix=prefix))
            else:
                reasons.append(Reason(verdict.rejection))
        return scored, reasons

    async def _within_budget(self, groups: Sequence[Group], prefix: str) -> Sequence[Verdict]:
        declared = self._seconds()
        left = self._budget.left(prefix, self._clock.now()) if prefix else math.inf
        # In virtual time the machine's speed must decide nothing: the declared time is spent.
        if declared and left > 0.0:
            left = math.inf
        judged = await self._clock.work(declared, self._scorer.score_external(groups, left))
        if prefix and judged.seconds:
            self._budget.spend(prefix, declared or judged.seconds, self._clock.now())
        return judged.verdicts
