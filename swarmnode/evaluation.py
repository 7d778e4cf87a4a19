"""Held-out success: questions that nobody trains on, answered once sampled and once greedily.

The same questions and the same sampling seed at every evaluation of every node, so that policies
and moments compare pair by pair. `examine_closely` asks for several samples of each question, which
pass@k needs. Why three rewards: docs/how-it-works.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from swarmnode.clock import Clock
from swarmnode.pass_rates import Values, pass_at_k
from swarmnode.rewards.client import Scorer, Verdict
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
ANSWERS_PER_CALL = 64
"""Answers that a policy samples at a time in a close examination; it bounds memory and waiting."""


class EvaluationError(Exception):
    """The scorer does not take the evaluation questions for its own."""


class AnsweringPolicy(Protocol):
    """A policy that can be examined."""

    @property
    def info(self) -> PolicyInfo:
        """Which policy it is now."""

    async def answer(
        self, questions: Sequence[Question], decoding: Literal["sampled", "greedy"], seed: int
    ) -> Sequence[Completion]:
        """One answer to each question."""


class SampledPolicy(AnsweringPolicy, Protocol):
    """A policy that can be examined closely."""

    async def samples(
        self, questions: Sequence[Question], completions: int, seed: int
    ) -> Sequence[Sequence[Completion]]:
        """`completions` sampled answers to each question."""


@dataclass(frozen=True, slots=True)
class Marks:
    """How a policy did, by task, questions in their fixed order: "1" for a success, else "0"."""

    sampled: Mapping[str, Sequence[str]]
    """A text a question, of one mark for each of its samples."""
    greedy: Mapping[str, str]
    """A mark a question."""

    def pass_at(self, k: int) -> Values:
        """The estimated pass@k of each question (swarmnode.pass_rates)."""
        return {
            task: [pass_at_k(len(marks), marks.count("1"), k) for marks in each]
            for task, each in self.sampled.items()
        }

    @property
    def greedy_values(self) -> Values:
        """1.0 or 0.0 for each question."""
        return {task: [float(mark) for mark in each] for task, each in self.greedy.items()}


@dataclass(frozen=True, slots=True)
class Answered:
    """What a policy said to one question, and how often that was right."""

    question: Question
    sampled: Sequence[Completion]
    marks: str
    """A mark for each of the sampled answers: "1" for a success, else "0"."""
    greedy: Completion
    greedy_mark: str


async def examine_closely(
    scorer: Scorer,
    policy: SampledPolicy,
    questions: Mapping[str, Sequence[Question]],
    samples: int,
    told: Callable[[str, int], None],
) -> Marks:
    """The marks of `answer_closely`."""
    answered = await answer_closely(scorer, policy, questions, samples, told)
    return Marks(
        {task: [each.marks for each in rows] for task, rows in answered.items()},
        {task: "".join(each.greedy_mark for each in rows) for task, rows in answered.items()},
    )


async def answer_closely(
    scorer: Scorer,
    policy: SampledPolicy,
    questions: Mapping[str, Sequence[Question]],
    samples: int,
    told: Callable[[str, int], None],
) -> dict[str, list[Answered]]:
    """Each question answered `samples` times at the sampling temperature and once greedily.

    `told` hears of each task how many more questions are done. Sampling starts anew with every few
    questions, so that the first questions are answered alike however many are asked. Raises
    EvaluationError.
    """
    answered: dict[str, list[Answered]] = {task: [] for task in questions}
    step = max(1, ANSWERS_PER_CALL // samples)
    for task, asked in questions.items():
        for start in range(0, len(asked), step):
            some = asked[start : start + step]
            rows = await policy.samples(some, samples, SAMPLING_SEED + start)
            once = await policy.answer(some, "greedy", SAMPLING_SEED)
            verdicts = await scorer.score(
                [
                    Group(question, (*row, last), b"", policy.info)
                    for question, row, last in zip(some, rows, once, strict=True)
                ],
                expect_held_out=True,
            )
            _check(verdicts)
            for question, row, last, verdict in zip(some, rows, once, verdicts, strict=True):
                marks = _marks(verdict.scores)
                answered[task].append(Answered(question, row, marks[:-1], last, marks[-1]))
            told(task, len(some))
    return answered


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
        sampled = await policy.answer(self._questions, "sampled", SAMPLING_SEED)
        greedy = await policy.answer(self._questions, "greedy", SAMPLING_SEED)
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
        _check(verdicts)
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


def _check(verdicts: Sequence[Verdict]) -> None:
    """Raises EvaluationError."""
    for verdict in verdicts:
        # Text and machine may stop the scorer, or be more than another package's verifier can take;
        # all else means that the questions are not ours.
        if verdict.rejection not in (None, "scorer_killed", "scorer_slow", "unscorable"):
            raise EvaluationError(
                f"an evaluation question was refused: {verdict.rejection}; install swarmnode again"
            )


def _marks(scores: Sequence[float]) -> str:
    return "".join("1" if score >= SUCCESS_THRESHOLD else "0" for score in scores)
