"""`make bench NAME=scheduler_cost`: what a scheduler of tasks adds to a policy's training step.

The same groups, one of each of eight tasks, go through a step that nobody watches and, in turn with
it, through one that the scheduler watches, after which it learns and says its next shares. CPU
seconds of one thread. `ARGUMENTS=tiny` or `smollm2-135m` measures that model alone.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import nn

from swarmnode.config.scheduling import Kind, Scheduling
from swarmnode.scheduling.agent.hosted import HostedOrder, HostedScheduler
from swarmnode.training import Trainer, TrainingGroup
from tests.benchmarks.engine_machine import seconds
from tests.benchmarks.engine_step import SETTINGS, TEMPERATURE, groups_for
from tests.benchmarks.engine_subject import Subject, smollm2, tiny
from tests.benchmarks.scheduling_protocol import TASKS
from tests.benchmarks.sharing_markdown import table

KINDS: Sequence[Kind] = ("doge", "ac-odm", "hds")
PAIRS = {"tiny": 30, "smollm2-135m": 3}
TOLD = {
    "samples": (1.0,) * 8 + (0.0,),
    "losses": (0.6, 0.5, 0.9, 0.8, 0.4, 0.7, 1.0, 0.9, None),
    "learnability": (0.8, 0.9, 0.3, 0.5, 0.7, 0.6, 0.0, 0.3, None),
    "diversity": (40.0, 35.0, 20.0, 60.0, 15.0, 30.0, 25.0, 45.0, None),
}
"""What the daemon tells of a round; the values don't matter to what learning costs."""


class Watched:
    """A scheduler whose parts are timed: gradients, then learning and the next shares."""

    def __init__(self, kind: Kind, model: nn.Module) -> None:
        # The agent learns at once, as it would go on doing: an update costs what it always costs.
        settings = Scheduling.model_validate(
            {"kind": kind, "hds": {"warmup_batches": 0.0, "warmup_share": 0.0}}
        )
        self._scheduler = HostedScheduler(HostedOrder(settings, TASKS, 1000, 0), model)
        self._scheduler.weights()
        self.gradients = 0.0
        self.learning = 0.0

    def begin(self) -> None:
        """As GradientWatcher."""
        self.gradients = seconds(self._scheduler.begin)

    def took(self, task: str, weight: float) -> None:
        """As GradientWatcher."""
        self.gradients += seconds(lambda: self._scheduler.took(task, weight))

    def learn(self) -> None:
        """End the round."""

        def ending() -> None:
            self._scheduler.update(TOLD)
            self._scheduler.weights()

        self.learning = seconds(ending)


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the pairs."""

    step: float
    """Seconds, unwatched."""
    gradients: float
    learning: float
    ratio: float
    """Of a watched step with all that follows over an unwatched one."""

    @property
    def added(self) -> float:
        """Share of a step that its timed parts add."""
        return (self.gradients + self.learning) / self.step


def measure(
    kind: Kind, subject: Subject, groups: Sequence[TrainingGroup], model: str, pairs: int
) -> Cost:
    """Steps of two equal policies in turn, one of them watched; the first pair isn't counted."""
    plain, other = subject.fresh(), subject.fresh()
    settings = SETTINGS.for_model(model, adapters=False, device="cpu")
    unwatched = Trainer(plain, settings, TEMPERATURE)
    trainer = Trainer(other, settings, TEMPERATURE)
    watched = Watched(kind, other.model)

    def step() -> None:
        trainer.step(groups, watcher=watched)
        watched.learn()

    found: list[tuple[float, float, float, float]] = []
    for _ in range(pairs + 1):
        one, both = seconds(lambda: unwatched.step(groups)), seconds(step)
        found.append((one, watched.gradients, watched.learning, both / one))
        print(f"{model} {kind}: {one:.3f} s, watched {both / one:.3f} times", file=sys.stderr)
    return Cost(*(statistics.median(each) for each in zip(*found[1:], strict=True)))


def _groups(model: str, subject: Subject) -> list[TrainingGroup]:
    groups = groups_for(subject, model)
    return [replace(group, task=task) for group, task in zip(groups, TASKS, strict=False)]


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    subjects: dict[str, Callable[[], Subject]] = {"tiny": tiny, "smollm2-135m": smollm2}
    if not set(arguments) <= set(subjects):
        print("make bench NAME=scheduler_cost takes ARGUMENTS=tiny, smollm2-135m or none")
        return 2
    torch.set_num_threads(1)
    lines = []
    for model in arguments or subjects:
        subject = subjects[model]()
        groups = _groups(model, subject)
        for kind in KINDS:
            cost = measure(kind, subject, groups, model, PAIRS[model])
            lines.append(
                [
                    f"`{model}`",
                    f"`{kind}`",
                    f"{1e3 * cost.step:.0f}",
                    f"{1e3 * cost.gradients:.1f}",
                    f"{1e3 * cost.learning:.1f}",
                    f"{cost.added:.1%}",
                    f"{cost.ratio:.3f}",
                ]
            )
    head = ("model", "scheduler", "step, ms", "gradients, ms", "learning, ms", "added", "ratio")
    print(table(head, lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
