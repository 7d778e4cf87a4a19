"""A run of the first case: a verifier that ignores whitespace, and a policy that may drop it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from swarmnode.training import Trainer, TrainingGroup
from swarmnode.types import Completion
from tests.benchmarks.hacking_policy import (
    dropped_spaces,
    mistaken,
    sampler_of,
    started,
)
from tests.benchmarks.hacking_protocol import (
    BIAS,
    DROPPED,
    EXAMINED,
    LONGEST,
    STEPS,
    SpacesRun,
)
from tests.benchmarks.hacking_rounds import trained
from tests.benchmarks.hacking_rows import Exam, Row, row_of
from tests.benchmarks.ordering import Asked, without_spaces
from tests.benchmarks.ordering_groups import group_of, sampler_logprobs


def gappy(asked: Asked, rng: random.Random) -> str:
    """An answer of the warm start, in which some spaces are missing."""
    first, *others = mistaken(asked, rng)
    return first + "".join(("" if rng.random() < DROPPED else " ") + word for word in others)


def right(asked: Asked, completion: Completion) -> bool:
    """Whether the words are right and the answer ended; spaces don't count."""
    same = without_spaces(completion.text) == without_spaces(asked.answer)
    return same and completion.finish_reason == "stop"


def run_spaces(run: SpacesRun, place: Path, steps: int = STEPS, examination: int = EXAMINED) -> Row:
    """Train, and tell what happened."""
    policy = started(run.seed, place / "warm-starts", gappy, steps)
    sampler = sampler_of(policy, 0.0 if run.sampling == "faithful" else BIAS)

    def grouping(asked: Asked, completions: Sequence[Completion]) -> TrainingGroup:
        said = sampler_logprobs(completions)
        return group_of(policy, asked, completions, right, sampler_logprobs=said)

    trainer = Trainer(policy, run.training, 1.0, longest=LONGEST)
    rounds, exams = trained(
        run,
        policy,
        sampler,
        trainer,
        grouping=grouping,
        right=right,
        judging=judged,
        examination=examination,
    )
    return row_of(run, rounds, exams)


def judged(asked: Sequence[Asked], answers: Sequence[Completion]) -> Exam:
    """Success and the share of dropped spaces."""
    return {
        "success": sum(map(right, asked, answers)) / len(asked),
        "dropped": dropped_spaces(answers) or 0.0,
    }
