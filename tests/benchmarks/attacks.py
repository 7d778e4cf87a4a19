"""`make bench NAME=attacks`: every attack of the lab with its defence off and on.

Runs the arms of attacks_protocol.py, one run at a time on every core, and writes
docs/results/attacks.json and the tables of attacks.md. A run that is whole in runs/attacks/ is not
run again, so that an interrupted study goes on where it was. `ARGUMENTS=page` makes the tables of
what attacks.json holds; `ARGUMENTS=arm:NAME` runs one arm under its first seed and prints its row.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from swarmnode.files import write_atomically
from swarmnode.sim.machine import simulated_swarm_id
from swarmnode.sim.study import Arm
from tests.benchmarks.attacks_protocol import SEEDS, LabRun, all_runs, by_name
from tests.benchmarks.attacks_rows import Row, row_of
from tests.benchmarks.attacks_tables import render
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.studies import run_all
from tests.benchmarks.study_rows import write_rows

OUT = Path("runs") / "attacks"
RESULTS = Path("docs") / "results"


def run_by_swarm(arms: Iterable[Arm]) -> bool:
    """Run the arms, those of one swarm together; False when interrupted or when a core failed."""
    swarms: dict[bytes, list[Arm]] = {}
    for arm in arms:
        swarms.setdefault(simulated_swarm_id(arm.settings), []).append(arm)
    return all(run_all(some, OUT) for some in swarms.values())


def rows_of(runs: Iterable[LabRun]) -> list[Row]:
    """The rows of whole runs."""
    return [row_of(run, run.simulated.folder(OUT).read()) for run in runs]


def make_page(rows: Sequence[Row]) -> None:
    """Write the blocks of attacks.md."""
    page = RESULTS / "attacks.md"
    write_atomically(page, fill(page.read_text("utf-8"), render(rows), "attacks"))


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    match list(arguments):
        case ["page"]:
            make_page(json.loads((RESULTS / "attacks.json").read_text("utf-8")))
            return 0
        case []:
            runs = list(all_runs())
        case [one] if one.removeprefix("arm:") in by_name() and one.startswith("arm:"):
            runs = [LabRun(by_name()[one.removeprefix("arm:")], SEEDS[0])]
        case _:
            print("make bench NAME=attacks takes ARGUMENTS=page, ARGUMENTS='arm:NAME' or none")
            print("\n".join(f"arm:{name}" for name in by_name()))
            return 2
    if not run_by_swarm(run.simulated for run in runs):
        print("stopped; give the same command to go on")
        return 130
    rows = rows_of(runs)
    if arguments:
        print(json.dumps(rows, indent=1))
        return 0
    write_rows(RESULTS / "attacks.json", rows)
    make_page(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
