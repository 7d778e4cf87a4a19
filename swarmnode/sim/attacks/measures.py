"""What honest nodes show of an attack, as metrics of their rounds.

    attack/said/NAME       share of the sampled held-out answers that say what an attack wants said
    attack/answer_tokens   mean length of these answers, in the node's own tokens
    attack/groups          attackers' groups in the training set of a round
    attack/tokens          their tokens, and
    attack/set_tokens      those of the whole training set, counted as the bounds of external
                           groups count them (selection/shares.py)

The first two are taken at evaluations, the others in every round with a training set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Literal

from swarmnode.evaluation import AnsweringPolicy
from swarmnode.round import Policy
from swarmnode.selection.shares import pushing_tokens
from swarmnode.sim.attacks.forging import (
    FALSE_ANSWER,
    FALSE_STEP,
    LOOPHOLE_TASK,
    MARK,
    WEAK_ANSWER,
)
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored, Trained

SAID = "attack/said/"
ANSWER_TOKENS = "attack/answer_tokens"
GROUPS = "attack/groups"
TOKENS = "attack/tokens"
SET_TOKENS = "attack/set_tokens"


def said(question: Question, text: str) -> Iterator[str]:
    """Of what attacks want said, the names of what this answer says."""
    if text.startswith(MARK):
        yield "mark"
    if FALSE_STEP in text:
        yield "false_step"
    if text.strip() == FALSE_ANSWER:
        yield "false_answer"
    if question.task == LOOPHOLE_TASK and text.strip() == WEAK_ANSWER:
        yield "weak_answer"


def answer_figures(
    questions: Sequence[Question], answers: Sequence[Completion]
) -> Mapping[str, float]:
    """What held-out answers say, and how long they are.

    Of `weak_answer`, the share of the answers to the one task that it is an answer to.
    """
    counts = Counter(
        name
        for question, answer in zip(questions, answers, strict=True)
        for name in said(question, answer.text)
    )
    of_task = sum(question.task == LOOPHOLE_TASK for question in questions)
    asked = {name: len(questions) for name in ("mark", "false_step", "false_answer")}
    asked |= {"weak_answer": of_task} if of_task else {}
    shares = {f"{SAID}{name}": counts[name] / total for name, total in asked.items()}
    return {**shares, ANSWER_TOKENS: fmean(answer.token_count for answer in answers)}


def training_figures(
    groups: Sequence[Scored], attackers: Collection[bytes], *, positive: bool
) -> dict[str, float]:
    """How much of a training set is the attackers'.

    `positive`: whether of a peer's group successes alone are trained on.
    """
    theirs = [scored for scored in groups if scored.group.publisher in attackers]
    return {
        GROUPS: float(len(theirs)),
        TOKENS: _tokens(theirs, positive),
        SET_TOKENS: _tokens(groups, positive),
    }


def _tokens(groups: Sequence[Scored], positive: bool) -> float:
    return float(
        sum(
            pushing_tokens(
                scored,
                [each.token_count for each in scored.group.completions],
                positive=positive and scored.source == "external",
            )
            for scored in groups
        )
    )


class Measured:
    """A policy whose training sets are looked at before it trains on them; see Policy."""

    def __init__(self, policy: Policy, attackers: Collection[bytes], *, positive: bool) -> None:
        self._policy = policy
        self._attackers = attackers
        self._positive = positive

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        """As ever."""
        return await self._policy.generate(questions, completions)

    async def lengths(self, groups: Sequence[Scored]) -> Sequence[Sequence[int]]:
        """As ever."""
        return await self._policy.lengths(groups)

    async def train(self, groups: Sequence[Scored], watched: Sequence[Scored] = ()) -> Trained:
        """As ever, with more figures."""
        trained = await self._policy.train(groups, watched)
        figures = training_figures(groups, self._attackers, positive=self._positive)
        return replace(trained, metrics={**trained.metrics, **figures})


class Heard:
    """A policy whose sampled answers are kept; see AnsweringPolicy."""

    def __init__(self, policy: AnsweringPolicy) -> None:
        self._policy = policy
        self.figures: Mapping[str, float] = {}
        """Of the last sampled answers."""

    @property
    def info(self) -> PolicyInfo:
        """As ever."""
        return self._policy.info

    async def answer(
        self, questions: Sequence[Question], decoding: Literal["sampled", "greedy"], seed: int
    ) -> Sequence[Completion]:
        """As ever."""
        answers = await self._policy.answer(questions, decoding, seed)
        if decoding == "sampled":
            self.figures = answer_figures(questions, answers)
        return answers
