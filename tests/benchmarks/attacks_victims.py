"""Nodes that lack a defence which no setting switches off: victims, to show what it is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from swarmnode.network.transport import Transport
from swarmnode.node import Surroundings
from swarmnode.prefixes import own_prefix
from swarmnode.rewards.client import Judged, Scorer, Verdict
from swarmnode.sim.attacks.besetting import Beset
from swarmnode.types import Group


class TrustingScorer:
    """Scores a peer's group by the peer's own question and answer, as rl-swarm's GenRL does.

    Own groups and held-out ones are scored as ever.
    """

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def __getattr__(self, name: str) -> object:
        return getattr(self._scorer, name)

    async def score_external(self, groups: Sequence[Group], seconds: float = math.inf) -> Judged:
        """See Scorer.score_external."""
        return Judged([Verdict(tuple(_agrees(group))) for group in groups], 0.0)


def _agrees(group: Group) -> list[float]:
    answer = group.question.answer.strip()
    return [
        float(completion.finish_reason == "stop" and completion.text.strip() == answer)
        for completion in group.completions
    ]


def trusting(around: Surroundings) -> Surroundings:
    """A node that believes the question and the answer that come with a group."""
    return replace(around, scorer=TrustingScorer(around.scorer))  # type: ignore[arg-type]


def only_the_dht(around: Surroundings) -> Surroundings:
    """A node that looks for announcements in the DHT alone and asks no peer."""
    assert isinstance(around.transport, Beset)
    return replace(around, transport=around.transport.asking_nobody())


def for_ever(around: Surroundings) -> Surroundings:
    """A node on a network that waits for an answer for two minutes."""
    assert isinstance(around.transport, Beset)
    return replace(around, transport=around.transport.waiting(120.0))


class EachKeyApart:
    """A transport that takes every key for a machine of its own; see Transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)

    async def prefixes_of(self, peers: Sequence[str]) -> Sequence[str]:
        """Whatever the network says."""
        return [own_prefix(peer) for peer in peers]


def by_keys_alone(around: Surroundings) -> Surroundings:
    """A node that knows no address prefixes."""
    return replace(around, transport=EachKeyApart(around.transport))  # type: ignore[arg-type]
