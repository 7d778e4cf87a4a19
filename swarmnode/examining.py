"""`swarmnode eval`: a policy answers the held-out questions, beside what it was at its start.

Starts a policy host and a scorer of its own, and no network; a node that runs with the same home
notices nothing. Only wires: the questions are those of the scorer, and what the answers are worth
is told by swarmnode.pass_rates.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from swarmnode.children import policy_child, scoring_child, steps_told
from swarmnode.config.rewards import Rewards
from swarmnode.config.settings import Settings
from swarmnode.config.tasks import Tasks
from swarmnode.config.training import Training
from swarmnode.evaluation import Marks, examine_closely
from swarmnode.outfit import making_of, order_of
from swarmnode.policies import hosted
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import Child, ChildFailed
from swarmnode.progress import Step
from swarmnode.rewards.client import Scorer
from swarmnode.types import Question

NO_SWARM = bytes(32)
"""Evaluation and warm-start questions are the same in every swarm."""
_SEED = 0


@dataclass(frozen=True, slots=True)
class Exam:
    """Who is asked, and what."""

    settings: Settings
    """They make the policy; of what is asked they say how long an answer may be, and how warm."""
    public_key: bytes
    """The node's, from which the skills of its warm start follow; empty for a model alone."""
    checkpoint: Path | None
    """A sound one of that policy; None examines the start alone."""
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
class ExamResult:
    """How the policy did at its start and, where there is a checkpoint, in it."""

    start: Marks
    now: Marks | None


class CannotAsk(Exception):
    """A level has not so many held-out questions; one line for the user."""


class Watching(Protocol):
    """What is told while policies answer."""

    def making(self, step: Step | None = None) -> None:
        """A policy is being made, and how far that is; None as it begins."""

    def answering(self, which: str, questions: int) -> None:
        """The policy `which` ("start" or "now", "A" or "B") is asked so many questions in all."""

    def answered(self, task: str, questions: int) -> None:
        """So many more are done."""


def examine(exam: Exam, watching: Watching) -> ExamResult:
    """Let the policy answer.

    Raises CannotAsk, ChildError where a child does not start or the checkpoint is of another
    policy, and EvaluationError.
    """
    return asyncio.run(_examine(exam, watching))


async def _examine(exam: Exam, watching: Watching) -> ExamResult:
    asked = exam.settings.tasks.model_copy(update={"names": tuple(map(":".join, exam.pairs))})
    async with examiners(exam.settings, asked, exam.environment) as (scorer, host):
        questions = await held_out_questions(scorer, exam.pairs, exam.questions)
        ask = partial(examine_closely, scorer, questions=questions, samples=exam.samples)
        count = sum(map(len, questions.values()))
        policy = hosted(host)
        async with told_making(host, watching):
            order = await starting_order(exam.settings, asked, exam.public_key, scorer, exam.cache)
            await policy.create(order)
        now = None
        if exam.checkpoint is not None:
            # First, before a node that goes on training deletes it.
            await policy.open(exam.checkpoint)
            watching.answering("now", count)
            now = await ask(policy=policy, told=watching.answered)
            # A new host, so that there is never more than one model in memory.
            host.start()
            async with told_making(host, watching):
                await policy.create(order)
        watching.answering("start", count)
        return ExamResult(await ask(policy=policy, told=watching.answered), now)


@asynccontextmanager
async def told_making(host: Child, watching: Watching) -> AsyncIterator[None]:
    """In the block a policy is made in this host."""
    watching.making()
    async with steps_told(host, watching.making):
        yield


@asynccontextmanager
async def examiners(
    settings: Settings, asked: Tasks, environment: Mapping[str, str]
) -> AsyncIterator[tuple[Scorer, Child]]:
    """A scorer of what is `asked`, and a policy host without a policy. ChildError."""
    async with AsyncExitStack() as stack:
        scoring = scoring_child(settings.model_copy(update={"tasks": asked}), NO_SWARM)
        host = policy_child(environment, "policy host")
        for child in (scoring, host):
            child.start()
            stack.push_async_callback(child.close)
        yield Scorer(scoring, settings.rewards), host


async def starting_order(
    settings: Settings, asked: Tasks, public_key: bytes, scorer: Scorer, cache: Path
) -> PolicyOrder:
    """What makes the policy that these settings start with, to answer what is `asked`."""
    # How it is trained and paid is of no concern here, and some of that costs memory.
    untrained: dict[str, object] = {"training": Training(), "rewards": Rewards()}
    if settings.policy.model != "tiny":
        # The tasks of `tiny` are what its warm start taught, those of others its examples.
        untrained["tasks"] = asked
    settings = settings.model_copy(update=untrained)
    making = making_of(settings, public_key, _SEED, cache)
    return replace(await order_of(settings, making, scorer), rounds=None)


async def held_out_questions(
    scorer: Scorer, pairs: Sequence[tuple[str, str]], count: int
) -> Mapping[str, Sequence[Question]]:
    """The first `count` of each task and level. Raises CannotAsk."""
    try:
        return {task: await scorer.held_out(task, level, count) for task, level in pairs}
    except ChildFailed as error:
        # Behind the names of process, method and exception comes what the task says.
        raise CannotAsk(str(error).rpartition("Question: ")[2]) from error
