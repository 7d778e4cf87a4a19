"""A run of the second case: a reward model that likes short answers, and what is set against it."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import torch

from swarmnode.policy.policy import Policy
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.types import Completion
from tests.benchmarks.hacking_policy import mistaken, sampler_of, started, words_of
from tests.benchmarks.hacking_protocol import (
    CHANNELS,
    COMPLETIONS,
    EXAMINED,
    LONGEST,
    SHORTEST,
    STEPS,
    TASK,
    LengthArm,
    LengthRun,
    length_reward,
    liked,
    worth,
)
from tests.benchmarks.hacking_rounds import trained
from tests.benchmarks.hacking_rows import Exam, Row, row_of
from tests.benchmarks.ordering import Asked
from tests.benchmarks.ordering_groups import group_of

MATCHED_ON = 32
"""Questions from which the weights of `matched` are made, before the first round."""


def partial_answer(asked: Asked, rng: random.Random) -> str:
    """An answer of the warm start, which stops after any number of words."""
    return " ".join(mistaken(asked, rng)[: rng.randint(SHORTEST, TASK.length)])


def right(asked: Asked, completion: Completion) -> bool:
    """Whether all words are there and right: success, which nothing pays for here."""
    return completion.finish_reason == "stop" and words_of(completion) == list(asked.words)


def run_length(run: LengthRun, place: Path, steps: int = STEPS, examination: int = EXAMINED) -> Row:
    """Train, and tell what happened."""
    policy = started(run.seed, place / "warm-starts", partial_answer, steps)

    def grouping(asked: Asked, completions: Sequence[Completion]) -> TrainingGroup:
        channels = paid(run.arm, asked, completions)
        return group_of(policy, asked, completions, right, further_channels=channels)

    weights = weights_of(run.arm, policy, run.seed)
    trainer = Trainer(policy, run.training, 1.0, weights, longest=LONGEST)
    rounds, exams = trained(
        run,
        policy,
        sampler_of(policy, 0.0),
        trainer,
        grouping=grouping,
        right=right,
        judging=judged,
        examination=examination,
    )
    return row_of(run, rounds, exams)


def paid(
    arm: LengthArm, asked: Asked, completions: Sequence[Completion]
) -> Mapping[str, tuple[float, ...]]:
    """Both channels of a group."""
    return {
        "reward_model": tuple(liked(asked, words_of(each)) for each in completions),
        "length": tuple(length_reward(arm, each.token_count) for each in completions),
    }


def weights_of(arm: LengthArm, policy: Policy, seed: int) -> Mapping[str, float]:
    """Of the channels; success is measured and not paid for.

    `matched` weighs the length so that within groups, before the first round, both channels vary
    alike.
    """
    weights = {
        "accuracy": 0.0,
        "reward_model": 1.0,
        "length": 0.0 if arm == "reward model" else 1.0,
    }
    if arm == "matched":
        of_model, of_length = (spread(arm, policy, seed)[name] for name in CHANNELS)
        weights["length"] = of_model / of_length
    return {name: weight for name, weight in weights.items() if weight or name == "accuracy"}


def spread(arm: LengthArm, policy: Policy, seed: int) -> Mapping[str, float]:
    """The standard deviation of each channel within groups of the policy as it is."""
    asked = list(islice(TASK.stream(random.Random(f"matched {seed}")), MATCHED_ON))
    generator = torch.Generator().manual_seed(seed)
    texts = [each.text for each in asked]
    sampled = policy.generate(texts, COMPLETIONS, LONGEST, 1.0, generator)
    groups = [paid(arm, *pair) for pair in zip(asked, sampled, strict=True)]
    return {
        name: statistics.fmean(statistics.variance(each[name]) for each in groups) ** 0.5
        for name in CHANNELS
    }


def judged(asked: Sequence[Asked], answers: Sequence[Completion]) -> Exam:
    """Length, what the reward model says and what it ought to."""
    words = [words_of(each) for each in answers]
    return {
        "success": sum(map(right, asked, answers)) / len(asked),
        "tokens": statistics.fmean(each.token_count for each in answers),
        "liked": statistics.fmean(map(liked, asked, words)),
        "worth": statistics.fmean(map(worth, asked, words)),
    }
