"""What `learn` asks of a node, with no more of it than a test has to say itself."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from swarmnode.clock import SystemClock
from swarmnode.config.rounds import Rounds
from swarmnode.round import Parts
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.selection.filters import Filter
from swarmnode.selection.pool import Pool
from swarmnode.types import Scored, Trained


class Learner:
    """A policy, whose step a test gives, with a scheduler and guard-rails that do nothing."""

    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        raise NotImplementedError

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        raise NotImplementedError

    async def update(self, local: Sequence[Scored]) -> Mapping[str, float]:
        return {}

    def watch(self, groups: Sequence[Scored]) -> Mapping[str, float]:
        return {}

    def permitted(self, groups: Sequence[Scored]) -> Sequence[Scored]:
        return groups

    def heard(self, metrics: Mapping[str, float] | None) -> Mapping[str, float]:
        return {}


def learning_parts(
    learner: Learner, rounds: Rounds, pool: Pool, chosen_by: Filter, bounds: ExternalBounds
) -> Parts:
    """The parts of a node that `learn` asks for."""
    return Parts(
        number=0,
        rounds=rounds,
        scheduler=learner,  # type: ignore[arg-type]  # what producing needs is not there, as below
        questions=None,  # type: ignore[arg-type]
        policy=learner,  # type: ignore[arg-type]
        rewards=None,  # type: ignore[arg-type]
        outgoing=None,  # type: ignore[arg-type]
        pool=pool,
        chosen_by=chosen_by,
        bounds=bounds,
        guard_rails=learner,
        clock=SystemClock(),
        rng=random.Random(0),
    )
