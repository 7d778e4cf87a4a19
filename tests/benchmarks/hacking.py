"""`make bench NAME=hacking`: two ways in which a policy games its reward, and who sees it first.

Runs hacking_protocol.py, one run a core, and writes docs/results/hacking.json, the tables of
hacking.md and hacking.png. A run that is whole in runs/hacking/ is not run again, so that an
interrupted study goes on where it was. `ARGUMENTS=development` runs the development seed and prints
the tables, `ARGUMENTS=try` the same on few rounds; neither writes a page. `ARGUMENTS=page` makes
tables and picture of what hacking.json holds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from swarmnode.files import write_atomically
from tests.benchmarks.hacking_figure import draw
from tests.benchmarks.hacking_length import run_length
from tests.benchmarks.hacking_protocol import (
    DEVELOPMENT_SEEDS,
    ROUNDS,
    SECONDS_A_RUN,
    SEEDS,
    HackingRun,
    SpacesRun,
    length_runs,
    spaces_runs,
)
from tests.benchmarks.hacking_rows import Row
from tests.benchmarks.hacking_spaces import run_spaces
from tests.benchmarks.hacking_tables import render
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.short_runs import kept, make_rows, read_rows, write_rows

OUT = Path("runs") / "hacking"
RESULTS = Path("docs") / "results"
TRIED_ROUNDS = 5


def run_one(run: HackingRun, place: Path) -> Row:
    """A run of either case."""
    if isinstance(run, SpacesRun):
        return run_spaces(run, place)
    return run_length(run, place)


def work(runs: Iterator[HackingRun], place: Path) -> None:
    """For `make_rows`."""
    kept(runs, place, run_one)


def all_runs(seeds: Sequence[int], rounds: int = ROUNDS) -> list[HackingRun]:
    """Both cases under every seed."""
    return [*spaces_runs(seeds, rounds), *length_runs(seeds, rounds)]


def make_page(rows: Sequence[Row]) -> None:
    """Write the blocks of hacking.md, and its picture."""
    page = RESULTS / "hacking.md"
    write_atomically(page, fill(page.read_text("utf-8"), render(rows), "hacking"))
    (RESULTS / "hacking.png").write_bytes(draw(rows))


def made(runs: Sequence[HackingRun]) -> list[Row] | None:
    """The rows of the runs, None when interrupted."""
    rows = make_rows(runs, OUT, work, SECONDS_A_RUN * runs[0].rounds / ROUNDS)
    if rows is None:
        print("stopped; give the same command to go on")
    return rows


def show(runs: Sequence[HackingRun]) -> int:
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
            make_page(read_rows(RESULTS / "hacking.json"))
            return 0
        case ["development"]:
            return show(all_runs(DEVELOPMENT_SEEDS))
        case ["try"]:
            return show(all_runs(DEVELOPMENT_SEEDS, TRIED_ROUNDS))
        case []:
            rows = made(all_runs(SEEDS))
            if rows is None:
                return 130
            write_rows(RESULTS / "hacking.json", rows)
            make_page(rows)
            return 0
    print("make bench NAME=hacking takes ARGUMENTS=development, try, page or none")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
