"""Nodes that lack a defence which no setting switches off: victims, to show what it is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from swarmnode.node import Surroundings
from swarmnode.rewards.client import Scorer, Verdict
from swarmnode.sim.attacks.besetting import Beset
from swarmnode.types import Group


class TrustingScorer:
    """Scores a peer's group by the peer's own question and answer, as rl-swarm's GenRL does.

    Own groups and held-out ones are scored as ever.
    """

    def __init__(self, scorer: Scorer, own_key: bytes) -> None:
        self._scorer = scorer
        self._own_key = own_key

    def __getattr__(self, name: str) -> object:
        return getattr(self._scorer, name)

    async def score(
        self, groups: Sequence[Group], *, expect_held_out: bool = False
    ) -> list[Verdict]:
        """See Scorer.score; groups of a call are all of one author."""
        if expect_held_out or all(group.publisher == self._own_key for group in groups):
            return await self._scorer.score(groups, expect_held_out=expect_held_out)
        return [Verdict(tuple(_agrees(group))) for group in groups]


def _agrees(group: Group) -> list[float]:
    answer = group.question.answer.strip()
    return [
        float(completion.finish_reason == "stop" and completion.text.strip() == answer)
        for completion in group.completions
    ]


def trusting(around: Surroundings) -> Surroundings:
    """A node that believes the question and the answer that come with a group."""
    scorer = TrustingScorer(around.scorer, around.identity.public_key)
    return replace(around, scorer=scorer)  # type: ignore[arg-type]


def only_the_dht(around: Surroundings) -> Surroundings:
    """A node that looks for announcements in the DHT alone and asks no peer."""
    assert isinstance(around.transport, Beset)
    return replace(around, transport=around.transport.asking_nobody())
