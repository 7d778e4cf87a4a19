"""`swarmnode compare`: two policies answer the same held-out questions, one after the other.

Starts a policy host and a scorer of its own, and no network; nodes that run with the same homes
notice nothing. There is never more than one model in memory. Only wires: what the answers say is
told by swarmnode.comparison.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from swarmnode.comparison import Answers
from swarmnode.config.rewards import Rewards
from swarmnode.config.settings import Settings
from swarmnode.config.tasks import Tasks
from swarmnode.config.training import Training
from swarmnode.evaluation import answer_closely
from swarmnode.examining import (
    Watching,
    examiners,
    held_out_questions,
    starting_order,
    told_making,
)
from swarmnode.outfit import making_of
from swarmnode.policies import hosted, policy_order
from swarmnode.policy.order import PolicyOrder
from swarmnode.rewards.client import Scorer
from swarmnode.types import PolicyInfo


@dataclass(frozen=True, slots=True)
class Contestant:
    """One of the two policies."""

    settings: Settings
    """They make the policy, and say how it is asked: examples, instruction, temperature, tokens."""
    checkpoint: Path | None
    """A sound one of that policy; None takes the model as it is."""


@dataclass(frozen=True, slots=True)
class Contest:
    """Who is asked, and what."""

    contestants: tuple[Contestant, Contestant]
    """A and B."""
    pairs: Sequence[tuple[str, str]]
    """Task and level of what is asked."""
    questions: int
    """Of each task, at least 1."""
    samples: int
    """Sampled answers to each question, at least 1."""
    environment: Mapping[str, str]
    cache: Path
    """Where warm starts are kept."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What one of them said."""

    info: PolicyInfo
    answers: Answers


def contend(contest: Contest, watching: Watching) -> tuple[Reply, Reply]:
    """Let both answer.

    Raises CannotAsk (swarmnode.examining), ChildError where a child does not start or a checkpoint
    is of another policy, and EvaluationError.
    """
    return asyncio.run(_contend(contest, watching))


async def _contend(contest: Contest, watching: Watching) -> tuple[Reply, Reply]:
    a, b = contest.contestants
    names = tuple(map(":".join, contest.pairs))
    asked = a.settings.tasks.model_copy(update={"names": names})
    async with examiners(a.settings, asked, contest.environment) as (scorer, host):
        questions = await held_out_questions(scorer, contest.pairs, contest.questions)
        count = sum(map(len, questions.values()))

        async def reply(which: str, contestant: Contestant) -> Reply:
            policy = hosted(host)
            async with told_making(host, watching):
                await policy.create(await _order(contestant, asked, scorer, contest.cache))
            if contestant.checkpoint is not None:
                await policy.open(contestant.checkpoint)
            watching.answering(which, count)
            answers = await answer_closely(
                scorer, policy, questions, contest.samples, watching.answered
            )
            return Reply(policy.info, answers)

        first = await reply("A", a)
        # A new host, so that there is never more than one model in memory.
        host.start()
        return first, await reply("B", b)


async def _order(contestant: Contestant, asked: Tasks, scorer: Scorer, cache: Path) -> PolicyOrder:
    if contestant.checkpoint is None:
        return await starting_order(contestant.settings, asked, b"", scorer, cache)
    # Its weights replace what a warm start would give.
    policy = contestant.settings.policy
    cold = policy.warm_start.model_copy(update={"base_steps": 0, "steps": 0})
    settings = contestant.settings.model_copy(
        update={
            "policy": policy.model_copy(update={"warm_start": cold}),
            "tasks": asked,
            "training": Training(),
            "rewards": Rewards(),
        }
    )
    making = making_of(settings, b"", 0, cache)
    return replace(await policy_order(settings, scorer, making, []), rounds=None)
