"""The parts of a node, as `produce` of round.py needs them for a generator.

A generator samples in its own process, asks no more than it may, and never waits for the trainer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from swarmnode.round import Parts, Policy, Scheduler
from swarmnode.types import Group, Question, Scored, Trained


class Sampling(Protocol):
    """A generator's policy."""

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        """`completions` sampled answers to each question."""


@dataclass(frozen=True, slots=True)
class Halves:
    """A policy that samples in one process and is trained in another."""

    generator: Sampling
    trainer: Policy

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        """As Policy says."""
        return await self.generator.generate(questions, completions)

    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        """As Policy says."""
        return await self.trainer.lengths(groups)

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        """As Policy says."""
        return await self.trainer.train(groups, watched)


class LastShares:
    """What the scheduler decided after the last round: a generator asks and never waits for it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._shares: Mapping[str, float] | None = None

    async def weights(self) -> Mapping[str, float]:
        """As of the last look; the first one looks itself."""
        return self._shares or await self.look()

    async def look(self) -> Mapping[str, float]:
        """Ask the scheduler, which may wait for the trainer."""
        self._shares = await self._scheduler.weights()
        return self._shares

    async def update(self, local: Sequence[Scored]) -> Mapping[str, float]:
        """As Scheduler says."""
        return await self._scheduler.update(local)


def producing(node: Parts, shares: LastShares, generator: Sampling, count: int) -> Parts:
    """The node's parts for a batch of so many questions."""
    # The trainer asks on, where it has to: it knows what it has of all generators.
    rounds = {"questions_per_round": count, "dynamic_sampling": False}
    return replace(
        node,
        rounds=node.rounds.model_copy(update=rounds),
        scheduler=shares,
        policy=Halves(generator, node.policy),
    )
