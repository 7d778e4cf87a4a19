"""Running the arms of a study side by side, a run a core, and resuming it. Knows no study."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swarmnode.paths import cache_folder
from swarmnode.sim.machine import available_cores
from swarmnode.sim.study import Arm, run_study
from swarmnode.sim.summary import mean_reward
from swarmnode.types import RoundReport


class Lines:
    """Prints a line when a run ends."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def ready(self, arm: Arm, figures: Mapping[str, float]) -> None:
        """The swarm has joined."""
        self._started = time.monotonic()

    def round_ended(
        self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
    ) -> None:
        """Print the last round's held-out success."""
        if reports[0].round == arm.settings.simulation.rounds:
            seconds = time.monotonic() - self._started
            self._say(arm, f"held-out {mean_reward(reports, 'held_out'):.3f}  {seconds:.0f} s")

    def already_there(self, arm: Arm) -> None:
        """Nothing to do."""

    def _say(self, arm: Arm, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')}  {arm.variant} seed {arm.seed}  {text}", flush=True)


def run_all(arms: Sequence[Arm], out: Path) -> bool:
    """Run what is not in `out` yet, one run a core; False when interrupted or a core failed."""
    missing = [arm for arm in arms if not arm.folder(out).finished(arm.settings)]
    print(f"{len(arms) - len(missing)} of {len(arms)} runs are there", flush=True)
    return on_every_core(_work, missing, out)


def on_every_core(
    work: Callable[[Iterator[Any], Path], None], items: Sequence[object], place: Path
) -> bool:
    """Let a process a core do `work` on what it takes of the items, each taken once.

    False when interrupted, which ends the work of every process, or when one failed.
    """
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    cores = min(available_cores(), len(items))
    for each in (*items, *[None] * cores):
        queue.put(each)
    workers = [context.Process(target=_take, args=(work, queue, place)) for _ in range(cores)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        # The workers got it too, and end their runs.
        for worker in workers:
            worker.join()
        return False
    return all(worker.exitcode == 0 for worker in workers)


def _take(work: Callable[[Iterator[Any], Path], None], queue: Any, place: Path) -> None:
    work(iter(queue.get, None), place)


def _work(arms: Iterator[Arm], out: Path) -> None:
    folder = cache_folder(os.environ) / "warm-starts"
    folder.mkdir(parents=True, exist_ok=True)
    run_study(arms, out, environment=os.environ, cache=folder, progress=Lines())
