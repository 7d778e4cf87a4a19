"""`make bench NAME=scheduling`: which scheduler teaches most?

`ARGUMENTS=development` tries each arm's options on the development seeds and freezes them; then no
argument runs the main part, `ARGUMENTS=second` the second stage, and `ARGUMENTS=alone` three arms
without peers. `ARGUMENTS=try` runs three rounds of every arm on a swarm of two, and
`ARGUMENTS=page` only makes the page of what docs/results/scheduling.json holds. One run at a time
on every core; one that is whole in that file or in runs/scheduling/ is not run again, so that an
interrupted study goes on where it was, and `ARGUMENTS=so-far` keeps what is whole of it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from swarmnode.files import write_atomically
from tests.benchmarks.scheduling_page import render
from tests.benchmarks.scheduling_protocol import (
    ARMS,
    BY_STAGE,
    DEVELOPMENT_SEEDS,
    OPTIONS,
    StudyRun,
    development,
    frozen_options,
    runs_of,
    trial_runs,
)
from tests.benchmarks.scheduling_rows import Row, best_option, row_of
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.studies import run_all
from tests.benchmarks.study_rows import keep_rows, read_rows, write_rows

OUT = Path("runs") / "scheduling"
RESULTS = Path("docs") / "results"
FILE = RESULTS / "scheduling.json"
TRIAL_ROUNDS = 3


def freeze(rows: Sequence[Row], file: Path = OPTIONS) -> None:
    """Write the option of each arm that was best on the development seeds."""
    chosen = {
        arm.name: best_option(rows, arm.name, arm.options, DEVELOPMENT_SEEDS)
        for arm in ARMS
        if arm.options
    }
    write_atomically(file, json.dumps(chosen, indent=1) + "\n")


def make_page(rows: Sequence[Row]) -> None:
    """Write the tables of the page."""
    page = RESULTS / "scheduling.md"
    write_atomically(page, fill(page.read_text("utf-8"), render(rows), "scheduling"))


def _stage(runs: Sequence[StudyRun], then: Callable[[Sequence[Row]], None]) -> int:
    there = _there()
    if not run_all([run.simulated for run in runs if _key(run) not in there], OUT):
        print("stopped; give the same command to go on")
        return 130
    then([there[_key(run)] if _key(run) in there else _row(run) for run in runs])
    return 0


def _key(run: StudyRun) -> tuple[str, ...]:
    return run.stage, run.arm.name, run.option, str(run.seed)


def _there() -> dict[tuple[str, ...], Row]:
    """The runs that the file holds."""
    rows: list[Row] = read_rows(FILE)
    return {(row["stage"], row["arm"], row["option"], str(row["seed"])): row for row in rows}


def _row(run: StudyRun) -> Row:
    return row_of(run, run.simulated.folder(OUT).read())


def _so_far() -> int:
    """Keep the runs that are whole of stages that are not."""
    options, there = frozen_options(), _there()
    runs = [run for stage in BY_STAGE for run in runs_of(stage, options) if _key(run) not in there]
    whole = [run for run in runs if run.simulated.folder(OUT).finished(run.settings)]
    write_rows(FILE, [*there.values(), *map(_row, whole)])
    make_page(read_rows(FILE))
    return 0


def _kept(rows: Sequence[Row]) -> None:
    make_page(keep_rows(FILE, rows))


def _developed(rows: Sequence[Row]) -> None:
    freeze(rows)
    _kept(rows)


def _tried(rows: Sequence[Row]) -> None:
    for row in rows:
        shares = " ".join(f"{share:.2f}" for share in row["asked"].values())
        print(f"{row['arm']:16}  {shares}")


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    match list(arguments):
        case ["development"]:
            return _stage(list(development()), _developed)
        case ["second" | "alone" as stage]:
            return _stage(list(runs_of(stage, frozen_options())), _kept)
        case ["try"]:
            return _stage(list(trial_runs(TRIAL_ROUNDS)), _tried)
        case ["so-far"]:
            return _so_far()
        case ["page"]:
            make_page(read_rows(FILE))
            return 0
        case []:
            return _stage(list(runs_of("main", frozen_options())), _kept)
    print(
        "make bench NAME=scheduling takes ARGUMENTS=development, second, so-far, try, page or none"
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
