"""Held-out success: questions that nobody trains on, answered once sampled and once greedily.

The same questions and the same sampling seed at every evaluation of every node, so that policies
and moments compare pair by pair. Why three
rewards: docs/how-it-works.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from swarmnode.clock import Clock
from swarmnode.rewards.client import Scorer
from swarmnode.rewards.common_answers import Observation, observation, tally
from swarmnode.types import (
    SUCCESS_THRESHOLD,
    Completion,
    Evaluation,
    Group,
    PolicyInfo,
    Question,
)

SAMPLING_SEED = 1


class EvaluationError(Exception):
    """The scorer does not take the evaluation questions for its own."""


class AnsweringPolicy(Protocol):
    """A policy that can be examined."""

    @property
    def info(self) -> PolicyInfo:
        """Which policy it is now."""

    async def answer(
        self, prompts: Sequence[str], decoding: Literal["sampled", "greedy"], seed: int
    ) -> Sequence[Completion]:
        """One answer to each prompt."""


class Examiner:
    """Asks the held-out questions; one serves any number of nodes."""

    def __init__(self, scorer: Scorer, questions: Sequence[Question]) -> None:
        self._scorer = scorer
        self._questions = questions

    @classmethod
    async def prepare(
        cls, scorer: Scorer, levels: Mapping[str, str], questions_per_task: int
    ) -> Examiner:
        """Fetch the evaluation questions of each task at its level."""
        questions: list[Question] = []
        for task, level in levels.items():
            questions += await scorer.held_out(task, level, questions_per_task)
        return cls(scorer, questions)

    async def examine(
        self, policy: AnsweringPolicy, clock: Clock, seconds: Callable[[], float]
    ) -> Evaluation:
        """Every question answered once at the sampling temperature and once greedily."""
        prompts = [question.text for question in self._questions]
        sampled = await policy.answer(prompts, "sampled", SAMPLING_SEED)
        greedy = await policy.answer(prompts, "greedy", SAMPLING_SEED)
        return await clock.work(seconds(), self._judge(policy.info, sampled, greedy))

    async def _judge(
        self, policy: PolicyInfo, sampled: Sequence[Completion], greedy: Sequence[Completion]
    ) -> Evaluation:
        groups = [
            Group(question, pair, b"", policy)
            for question, pair in zip(
                self._questions, zip(sampled, greedy, strict=True), strict=True
            )
        ]
        verdicts = await self._scorer.score(groups, expect_held_out=True)
        for verdict in verdicts:
            # A text may kill the scorer; anything else means that the questions are not ours.
            if verdict.rejection not in (None, "scorer_killed"):
                raise EvaluationError(f"an evaluation question was refused: {verdict.rejection}")
        outcomes: defaultdict[str, list[tuple[float, ...]]] = defaultdict(list)
        answers: defaultdict[str, list[Observation]] = defaultdict(list)
        for group, verdict in zip(groups, verdicts, strict=True):
            question = group.question
            outcomes[question.task].append(verdict.scores)
            answers[question.task].append(
                observation(question.answer, group.completions[0], verdict.scores[0])
            )
        return Evaluation(
            sampled={task: _marks([s for s, _ in scores]) for task, scores in outcomes.items()},
            greedy={task: _marks([g for _, g in scores]) for task, scores in outcomes.items()},
            answers={task: tally(observations) for task, observations in answers.items()},
        )


def _marks(scores: Sequence[float]) -> str:
    return "".join("1" if score >= SUCCESS_THRESHOLD else "0" for score in scores)
