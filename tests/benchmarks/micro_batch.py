"""`make bench NAME=micro_batch`: how many positions should go through the model at once?

The same step of eight groups under several `training.micro_batch_tokens`, in turn, by CPU seconds
of one thread. What that setting changes is time and memory alone, so the default is the fastest.
`ARGUMENTS=tiny` or `smollm2-135m` measures that model alone. Three minutes, idle.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial

import torch

from swarmnode.training import Trainer
from tests.benchmarks.engine_machine import seconds
from tests.benchmarks.engine_step import SETTINGS, TEMPERATURE, groups_for
from tests.benchmarks.engine_subject import Subject, smollm2, tiny
from tests.benchmarks.sharing_markdown import table

TOKENS = (256, 512, 1024, 2048, 8192)
ROUNDS = {"tiny": 30, "smollm2-135m": 3}


def measure(subject: Subject, model: str) -> dict[int, float]:
    """The median seconds of a step, by positions at once; the first round isn't counted."""
    groups = groups_for(subject, model)
    # One policy for all: what it has learned changes nothing of what a step costs.
    trainers = {
        tokens: Trainer(
            subject.policy,
            SETTINGS.model_copy(update={"micro_batch_tokens": tokens}),
            TEMPERATURE,
        )
        for tokens in TOKENS
    }
    found: dict[int, list[float]] = {tokens: [] for tokens in TOKENS}
    for _ in range(ROUNDS[model] + 1):
        for tokens, trainer in trainers.items():
            found[tokens].append(seconds(partial(trainer.step, groups)))
            print(f"{model} {tokens}: {found[tokens][-1]:.3f} s", file=sys.stderr)
    return {tokens: statistics.median(each[1:]) for tokens, each in found.items()}


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    subjects: dict[str, Callable[[], Subject]] = {"tiny": tiny, "smollm2-135m": smollm2}
    if not set(arguments) <= set(subjects):
        print("make bench NAME=micro_batch takes ARGUMENTS=tiny, smollm2-135m or none")
        return 2
    torch.set_num_threads(1)
    lines = []
    for model in arguments or subjects:
        found = measure(subjects[model](), model)
        least = min(found.values())
        cells = [f"{took:.3g} s ({took / least:.2f})" for took in found.values()]
        lines.append([f"`{model}`", *cells])
    print(table(("step of 8 groups", *map(str, TOKENS)), lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
