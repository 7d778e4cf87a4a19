"""The rounds of a run of the hacking study, either case, with its guard-rails watching."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import torch

from swarmnode.config.guard_rails import GuardRails
from swarmnode.guard_rails import Rails
from swarmnode.policy.policy import Policy
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.types import Completion
from tests.benchmarks.hacking_policy import examined, questions, scored
from tests.benchmarks.hacking_protocol import (
    COMPLETIONS,
    EVERY_ROUNDS,
    LONGEST,
    QUESTIONS,
    TASK,
    HackingRun,
)
from tests.benchmarks.hacking_rows import Exam, Round
from tests.benchmarks.ordering import LEVEL, Asked
from tests.benchmarks.ordering import TASK as NAME
from tests.benchmarks.ordering_groups import Right

Grouping = Callable[[Asked, Sequence[Completion]], TrainingGroup]
Judging = Callable[[Sequence[Asked], Sequence[Completion]], Exam]


def trained(
    run: HackingRun,
    policy: Policy,
    sampler: Policy,
    trainer: Trainer,
    *,
    grouping: Grouping,
    right: Right,
    judging: Judging,
    examination: int,
) -> tuple[list[Round], Mapping[int, Exam]]:
    """What every round and every examination found."""
    stream = questions(run.seed)
    rails = Rails(GuardRails(), {NAME: LEVEL})
    generator = torch.Generator().manual_seed(run.seed)
    exam = TASK.examination(examination)
    exams = {0: judging(exam, examined(policy, exam, LONGEST))}
    rounds: list[Round] = []
    for number in range(1, run.rounds + 1):
        asked = list(islice(stream, QUESTIONS))
        texts = [each.text for each in asked]
        sampled = sampler.generate(texts, COMPLETIONS, LONGEST, 1.0, generator)
        watched = rails.watch(scored(policy, asked, sampled, right))
        groups = [grouping(*pair) for pair in zip(asked, sampled, strict=True)]
        metrics = trainer.step(groups).metrics
        rounds.append({**watched, **metrics, **rails.heard(metrics)})
        if number % EVERY_ROUNDS == 0 or number == run.rounds:
            exams[number] = judging(exam, examined(policy, exam, LONGEST))
    return rounds, exams
