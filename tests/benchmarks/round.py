"""`make bench NAME=round`: where a round of the demo goes, and what share of sgemm it reaches.

Runs the demo's swarm for a number of rounds and divides the wall time of the machine's cores among
what each child was asked to do; what remains is the daemon's own work and waiting. The model's
floating-point operations per round are counted from its parameters and the tokens that went through
it, and compared with the machine's matrix multiplication at the sizes of this model and at large
ones, measured in the same run.
"""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.config.settings import load_settings
from swarmnode.policy.tokenizer import PhraseTokenizer
from swarmnode.process import Child
from swarmnode.sim.machine import Machine
from swarmnode.sim.swarm import simulated_swarm

ROUNDS = 60
FLOPS_PER_TOKEN_FORWARD = 2.0
FLOPS_PER_TOKEN_TRAINED = 6.0
"""Per parameter: a forward, and a forward with a backward."""


class Timed:
    """Adds up the real seconds that calls to children take, from request to answer."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def install(self) -> None:
        """Wrap the exchange of every child of this process."""
        exchange = Child._exchange

        def timed(child: Child, request: list[Any], timeout_seconds: float) -> Any:
            started = time.perf_counter()
            answer = exchange(child, request, timeout_seconds)
            self.seconds[request[0]] += time.perf_counter() - started
            return answer

        Child._exchange = timed  # type: ignore[method-assign, assignment]


def sgemm_gflops(rows: int, inner: int, columns: int) -> float:
    """Median rate of one thread over products of this size, in 10^9 operations a second."""
    torch.set_num_threads(1)
    left, right = torch.randn(rows, inner), torch.randn(inner, columns)
    repeats = max(3, int(2e9 / (2 * rows * inner * columns)))

    def rate() -> float:
        started = time.perf_counter()
        for _ in range(repeats):
            torch.mm(left, right)
        return 2e-9 * rows * inner * columns * repeats / (time.perf_counter() - started)

    return statistics.median(rate() for _ in range(5))


async def _run(timed: Timed, machine: Machine, cache: Path) -> tuple[float, dict[str, float]]:
    settings = load_settings(
        assignments=[f"simulation.rounds={ROUNDS + 5}", "evaluation.every_rounds=1000"]
    )
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    sums: defaultdict[str, float] = defaultdict(float)
    started = own = 0.0
    async with simulated_swarm(settings, machine, VirtualClock(loop), cache) as swarm:
        async for reports in swarm.rounds():
            number = reports[0].round
            if number == 5:
                timed.seconds.clear()
                started, own = time.perf_counter(), _own_seconds()
            if 5 < number <= 5 + ROUNDS:
                for report in reports:
                    sums["trained"] += report.metrics.get("tokens/local", 0.0)
                    sums["trained"] += report.metrics.get("tokens/external", 0.0)
                    sums["live"] += report.metrics["mix/external_live_groups"]
                    sums["live"] += report.metrics["mix/local_live_groups"]
                    sums["sampled"] += report.metrics["completions/mean_length"] * (
                        settings.rounds.questions * settings.rounds.completions_per_group
                    )
            if number == 5 + ROUNDS:
                break
        elapsed = time.perf_counter() - started
        timed.seconds["daemon"] = _own_seconds() - own
        questions = [
            question
            for task, level in settings.tasks.pairs
            for question in await machine.scorer.held_out(task, level, 20)
        ]
        encode = PhraseTokenizer.load().encode
        prompt = statistics.fmean(len(encode(question.text)) + 1 for question in questions)
        sums["prompts_sampled"] = (
            ROUNDS * settings.simulation.nodes * settings.rounds.questions * prompt
        )
        sums["prompts_trained"] = sums["live"] * prompt
        sums["parameters"] = int(swarm.figures["parameters"])
        return elapsed, dict(sums)


def main() -> None:
    """Print the shares and the rates."""
    settings = load_settings()
    timed = Timed()
    timed.install()
    machine = Machine(settings, os.environ)
    machine.start()
    try:
        with TemporaryDirectory() as cache, asyncio.Runner(loop_factory=VirtualLoop) as runner:
            elapsed, sums = runner.run(_run(timed, machine, Path(cache)))
    finally:
        machine.close()
    cores = len(machine.hosts)
    print(f"{settings.simulation.nodes} nodes, {cores} policy hosts, {ROUNDS} rounds")
    print(f"a round of the whole swarm takes {1e3 * elapsed / ROUNDS:.0f} ms of wall time")
    for method in ("generate", "train", "score", "draw"):
        share = timed.seconds[method] / (elapsed * cores)
        each = 1e3 * timed.seconds[method] / (ROUNDS * settings.simulation.nodes)
        print(f"  {method:9} {each:7.2f} ms a node and round, {share:5.1%} of the cores' time")
    own = 1e3 * timed.seconds["daemon"] / ROUNDS
    print(f"  daemon    {own:7.2f} ms of CPU a round of the whole swarm")
    sampled = sums["sampled"] + sums["prompts_sampled"]
    trained = sums["trained"] + sums["prompts_trained"]
    flops = sums["parameters"] * (
        FLOPS_PER_TOKEN_FORWARD * sampled + FLOPS_PER_TOKEN_TRAINED * trained
    )
    reached = 1e-9 * flops / (timed.seconds["generate"] + timed.seconds["train"])
    print(f"live groups trained: {sums['live'] / ROUNDS / settings.simulation.nodes:.2f} a step")
    sampled, trained = sampled / ROUNDS, trained / ROUNDS
    print(f"tokens a round, each prompt once: {sampled:.0f} generating, {trained:.0f} training")
    for name, sizes in _sizes(settings.policy.tiny.width):
        rate = sgemm_gflops(*sizes)
        share = reached / rate
        print(f"sgemm {name} {sizes}: {rate:.1f} GFLOP/s; the round reaches {share:.1%} of it")


def _own_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _sizes(width: int) -> Sequence[tuple[str, tuple[int, int, int]]]:
    return (("of this model", (32, width, 3 * width)), ("at its best", (1024, 1024, 1024)))


if __name__ == "__main__":
    main()
