"""`make bench NAME=mismatch`: does truncated importance sampling stand a sampler that is off?

Runs mismatch_protocol.py, one run a core, and writes docs/results/mismatch.json, the tables of
mismatch.md and mismatch.png. A run that is whole in runs/mismatch/ is not run again, so that an
interrupted study goes on where it was. `ARGUMENTS=development` runs the development seed and prints
the tables, `ARGUMENTS=try` the same on few rounds; neither writes a page. `ARGUMENTS=page` makes
tables and picture of what mismatch.json holds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from swarmnode.files import write_atomically
from tests.benchmarks.mismatch_figure import draw
from tests.benchmarks.mismatch_protocol import (
    DEVELOPMENT_SEEDS,
    ROUNDS,
    SECONDS_A_RUN,
    SEEDS,
    MismatchRun,
    runs_of,
)
from tests.benchmarks.mismatch_rows import Row
from tests.benchmarks.mismatch_run import work
from tests.benchmarks.mismatch_tables import render
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.short_runs import make_rows, read_rows, write_rows

OUT = Path("runs") / "mismatch"
RESULTS = Path("docs") / "results"
TRIED_ROUNDS = 5


def make_page(rows: Sequence[Row]) -> None:
    """Write the blocks of mismatch.md, and its picture."""
    page = RESULTS / "mismatch.md"
    write_atomically(page, fill(page.read_text("utf-8"), render(rows), "mismatch"))
    (RESULTS / "mismatch.png").write_bytes(draw(rows))


def made(runs: Sequence[MismatchRun]) -> list[Row] | None:
    """The rows of the runs, None when interrupted."""
    rounds = runs[0].rounds
    rows = make_rows(runs, OUT, work, SECONDS_A_RUN * rounds / ROUNDS)
    if rows is None:
        print("stopped; give the same command to go on")
    return rows


def show(runs: Sequence[MismatchRun]) -> int:
    """Run and print; the exit code."""
    rows = made(runs)
    if rows is None:
        return 130
    print("\n\n".join(render(rows).values()))
    return 0


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    match list(arguments):
        case ["page"]:
            make_page(read_rows(RESULTS / "mismatch.json"))
            return 0
        case ["development"]:
            return show(list(runs_of(DEVELOPMENT_SEEDS)))
        case ["try"]:
            return show(list(runs_of(DEVELOPMENT_SEEDS, TRIED_ROUNDS)))
        case []:
            rows = made(list(runs_of(SEEDS)))
            if rows is None:
                return 130
            write_rows(RESULTS / "mismatch.json", rows)
            make_page(rows)
            return 0
    print("make bench NAME=mismatch takes ARGUMENTS=development, try, page or none")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
