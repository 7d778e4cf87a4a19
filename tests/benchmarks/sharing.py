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
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from swarmnode.files import write_atomically
from swarmnode.tasks import baseline
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
from tests.benchmarks.studies import run_all
from tests.benchmarks.study_rows import keep_rows

OUT = Path("runs") / "sharing"
RESULTS = Path("docs") / "results"


def update_results(runs: Sequence[StudyRun]) -> list[Row]:
    """Put the rows of these runs into sharing.json beside those of other stages; returns all."""
    rows = [row_of(run, run.simulated.folder(OUT).read()) for run in runs]
    return keep_rows(RESULTS / "sharing.json", rows)


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
    if not run_all([run.simulated for run in runs], OUT):
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
