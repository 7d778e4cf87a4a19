"""Schedulers on the mixing toy of tests/unit/scheduling_toy.py: `make bench NAME=scheduling_toy`.

Every arm steers five models; its loss is given over the best static mixture's of a grid, beside the
shares that it ended with. At the end the agent's own cost, and that of the sizes that it would have
beside larger models. About two minutes on a quiet core.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence

import torch

from swarmnode.config.settings import load_settings
from swarmnode.scheduling.agent.build import Scheduled, build
from swarmnode.scheduling.agent.sizes import size_for
from swarmnode.scheduling.fixed import Drawn, Static
from swarmnode.scheduling.scheduler import Scheduler, advance, beginning
from tests.unit.scheduling_toy import JUDGED, STEPS, Toy, grid, train

SEEDS = range(5)

Arm = Callable[[int], Scheduler]


def of(kind: str, *assignments: str) -> Arm:
    """An arm by its settings."""

    def make(seed: int) -> Scheduler:
        settings = load_settings(
            assignments=[
                f"scheduling.kind={kind}",
                "scheduling.minimum_share=0",
                "scheduling.hds.warmup_batches=1",
                *(f"scheduling.{each}" for each in assignments),
            ]
        )
        return build(settings.scheduling, Scheduled(3, 1, 800_000, STEPS, seed))

    return make


ALIGNED = ("hds.diversity_weight=0", "hds.stability_weight=0")

ARMS: dict[str, Arm] = {
    "uniform": of("uniform"),
    "drawn at random": lambda seed: Drawn(3, random.Random(seed)),
    "odm": of("odm"),
    "doge": of("doge"),
    "ac-odm": of("ac-odm"),
    "hds corrected": of("hds"),
    "hds frozen": of("hds", "hds.updates_per_step=0"),
    "hds, discount 0": of("hds", "hds.discount=0"),
    "hds, raw alignment": of("hds", "hds.alignment=raw"),
    "hds, z-scored, mean": of("hds", *ALIGNED, "hds.alignment=zscore", "hds.scalarisation=mean"),
    "hds, target entropy -K": of("hds", "hds.target_entropy=dimension"),
    "hds paper": of("hds", "hds.variant=paper"),
}


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    best, mixture = min((train(Static(each), 0).loss, each) for each in grid())
    print(f"best static mixture {mixture}: loss {best:.4f} over the last {JUDGED} of {STEPS} steps")
    print("| arm | loss over the best, by seed | within 1.1 | last shares | CPU seconds |")
    print("| --- | --- | --- | --- | --- |")
    for name, make in ARMS.items():
        started = time.process_time()
        runs = [train(make(seed), seed) for seed in SEEDS]
        spent = (time.process_time() - started) / len(runs)
        ratios = [run.loss / best for run in runs]
        shown = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        within = sum(ratio <= 1.1 for ratio in ratios)
        shares = ended([run.shares for run in runs])
        print(
            f"| {name} | {shown} | {within} of {len(runs)} | {shares} | {spent:.1f} |", flush=True
        )
    print_cost()


def ended(shares: Sequence[Sequence[Sequence[float]]]) -> str:
    """Mean shares of the last steps over all runs."""
    last = [step for run in shares for step in run[-JUDGED:]]
    return "/".join(f"{statistics.fmean(column):.2f}" for column in zip(*last, strict=True))


def print_cost() -> None:
    """Median milliseconds of a step of the agent, by the language model that it is sized for."""
    print("\n| model parameters | parameters of a network | ms a step, two updates |")
    print("| --- | --- | --- |")
    for parameters in (860_000, 135_000_000):
        settings = load_settings(
            assignments=["scheduling.kind=hds", "scheduling.hds.warmup_share=0"]
        ).scheduling
        agent = build(settings, Scheduled(3, 1, parameters, 0, 0))
        toy, state = Toy(0), beginning(3)
        spent = []
        for _ in range(90):
            given = toy.step(agent.weights(state))
            started = time.process_time()
            metrics = agent.update(given)
            spent.append(time.process_time() - started)
            state = advance(state, given)
            if "scheduler/critic_loss" not in metrics:
                spent.clear()
        size = size_for(parameters, settings.hds.size_share).parameters
        print(f"| {parameters:,} | {size:,} | {1000 * statistics.median(spent):.1f} |")


if __name__ == "__main__":
    main()
