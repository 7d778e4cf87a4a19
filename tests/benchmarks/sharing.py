"""`make bench NAME=sharing`: the study "Does sharing help, and what does it share?"

The main part runs every arm at its frozen learning rate under fresh seeds, then the mixes, the
runs with the gameable verifier and the long runs, and writes docs/results/sharing.json, the tables
of sharing.md and sharing.png. `ARGUMENTS=development` runs the development seeds instead and
freezes the rates; `ARGUMENTS=page` only makes the page of what sharing.json holds. One run at a
time on every core; a run that is whole in runs/sharing/ is not run again, so that an interrupted
study goes on where it was.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from swarmnode.files import write_atomically
from swarmnode.paths import cache_folder
from swarmnode.sim.machine import available_cores
from swarmnode.sim.study import Arm, run_study
from swarmnode.sim.summary import mean_reward
from swarmnode.tasks import baseline
from swarmnode.types import RoundReport
from tests.benchmarks.sharing_page import StudyProtocol, fill, render
from tests.benchmarks.sharing_protocol import (
    ARMS,
    DEVELOPMENT_SEEDS,
    FRESH_SEEDS,
    FROZEN_RATES,
    LOOPHOLE_TASK,
    LOWER_RATE,
    MIXES,
    RATES,
    REFERENCE_ARM,
    ROUNDS,
    SHARING_ARM,
    StudyRun,
    development,
    frozen_rates,
    main_part,
    rates_of,
)
from tests.benchmarks.sharing_rows import row_of
from tests.benchmarks.sharing_statistics import Row, choose_rate

OUT = Path("runs") / "sharing"
RESULTS = Path("docs") / "results"


class Lines:
    """Prints a line when a run begins and when it ends."""

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


def run_all(runs: Sequence[StudyRun]) -> bool:
    """Run what is not there yet, one run a core; False when interrupted or when a core failed."""
    wanted = [run.simulated for run in runs]
    missing = [arm for arm in wanted if not arm.folder(OUT).finished(arm.settings)]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} runs are there", flush=True)
    context = multiprocessing.get_context("spawn")
    queue: Any = context.Queue()
    cores = min(available_cores(), len(missing))
    for each in (*missing, *[None] * cores):
        queue.put(each)
    workers = [context.Process(target=_work, args=(queue,)) for _ in range(cores)]
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


def _work(queue: Any) -> None:
    arms: Iterator[Arm] = iter(queue.get, None)
    folder = cache_folder(os.environ) / "warm-starts"
    folder.mkdir(parents=True, exist_ok=True)
    run_study(arms, OUT, environment=os.environ, cache=folder, progress=Lines())


def update_results(runs: Sequence[StudyRun]) -> list[Row]:
    """Put the rows of these runs into sharing.json beside those of other stages; returns all."""
    file = RESULTS / "sharing.json"
    old: list[Row] = json.loads(file.read_text("utf-8")) if file.exists() else []
    stages = {run.stage for run in runs}
    rows = [row for row in old if row["stage"] not in stages]
    rows += [row_of(run, run.simulated.folder(OUT).read()) for run in runs]
    text = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    write_atomically(file, f"[\n{text}\n]\n")
    return rows


def freeze_rates(rows: Sequence[Row]) -> None:
    """Write the best rate of each arm on the development seeds."""
    chosen = {
        arm.name: choose_rate(rows, arm.name, rates_of(arm.name), DEVELOPMENT_SEEDS).rate
        for arm in ARMS
    }
    write_atomically(FROZEN_RATES, json.dumps(chosen, indent=1) + "\n")


def protocol() -> StudyProtocol:
    """What the page tells of the protocol."""
    tasks = dict(main_settings_tasks())
    return StudyProtocol(
        arms={arm.name: arm.description for arm in ARMS},
        rates=(LOWER_RATE, *RATES),
        development_seeds=DEVELOPMENT_SEEDS,
        fresh_seeds=FRESH_SEEDS,
        rounds=ROUNDS,
        tasks=list(tasks),
        baselines={
            **{task: baseline(task, level) for task, level in tasks.items()},
            LOOPHOLE_TASK: baseline(LOOPHOLE_TASK, "paper"),
        },
        reference=REFERENCE_ARM,
        sharing=SHARING_ARM,
        controls=("8/0 positive", "8/0 dynamic", "4/4 replay", "4/4 both"),
        mixes=(REFERENCE_ARM, MIXES[0].name, SHARING_ARM, MIXES[1].name),
    )


def main_settings_tasks() -> Sequence[tuple[str, str]]:
    """Task and level of the main part."""
    return StudyRun("main", ARMS[0], RATES[0], FRESH_SEEDS[0]).settings.tasks.pairs


def make_page(rows: Sequence[Row]) -> None:
    """Write the blocks of sharing.md, and the picture."""
    # Only who makes the page loads matplotlib, not every core's process.
    from tests.benchmarks.sharing_figure import draw

    page = RESULTS / "sharing.md"
    write_atomically(page, fill(page.read_text("utf-8"), render(rows, protocol())))
    write_atomically(RESULTS / "sharing.png", draw(rows, protocol()))


def _stage(runs: Sequence[StudyRun], then: Callable[[Sequence[Row]], None]) -> int:
    if not run_all(runs):
        print("stopped; give the same command to go on")
        return 130
    then(update_results(runs))
    return 0


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    match list(arguments):
        case ["development"]:
            return _stage(list(development()), freeze_rates)
        case ["page"]:
            make_page(json.loads((RESULTS / "sharing.json").read_text("utf-8")))
            return 0
        case []:
            return _stage(list(main_part(frozen_rates())), make_page)
    print("make bench NAME=sharing takes ARGUMENTS=development, ARGUMENTS=page or none")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
