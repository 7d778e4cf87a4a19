"""`make bench NAME=split`: generation and training apart: speed, staleness, and what is learned.

Runs split_protocol.py, one run after the other since each has the machine to itself, swarms alone
ten at once since they wait for most of the time, and writes docs/results/split.json, the tables of
split.md and split.png. A run that is whole in runs/split/ is not run again. `ARGUMENTS=development`
runs the development seed and prints the tables, `ARGUMENTS=try` the same on few rounds and with
`tiny` throughout; neither writes a page.
`ARGUMENTS=page` makes tables and picture of what split.json holds. `ARGUMENTS="speed"`, or another
part's name, runs that part alone and keeps what the page has of the others.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from swarmnode.files import write_atomically
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.short_runs import row_file
from tests.benchmarks.split_figure import draw
from tests.benchmarks.split_protocol import (
    CONFIRMATION_SEEDS,
    DEVELOPMENT_SEEDS,
    PARTS,
    SEEDS,
    SWARMS_AT_ONCE,
    SplitRun,
    runs_of,
)
from tests.benchmarks.split_runs import work
from tests.benchmarks.split_tables import render
from tests.benchmarks.study_rows import read_rows, write_rows

RESULTS = Path("docs") / "results"
ROWS = RESULTS / "split.json"
PLACE = Path("runs") / "split"
TRIED_SHARE = 0.03


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    match list(arguments):
        case ["page"]:
            _make_page(read_rows(ROWS))
        case ["development"]:
            _show(_made(list(runs_of(DEVELOPMENT_SEEDS, 1.0))))
        case ["try"]:
            _show(_made(list(runs_of(DEVELOPMENT_SEEDS, TRIED_SHARE, model="tiny"))))
        case []:
            _keep(_made(_whole()))
        case [part] if part in PARTS:
            _keep(_made([run for run in _whole() if run.part == part]))
        case _:
            parts = ", ".join(PARTS)
            print(f"make bench NAME=split takes ARGUMENTS=development, try, page, {parts} or none")
            return 2
    return 0


def _whole() -> Sequence[SplitRun]:
    return list(runs_of((*SEEDS, *CONFIRMATION_SEEDS), 1.0))


def _made(runs: Sequence[SplitRun]) -> list[Any]:
    PLACE.mkdir(parents=True, exist_ok=True)
    missing = [run for run in runs if not row_file(run, PLACE).exists()]
    print(f"{len(runs) - len(missing)} of {len(runs)} runs are there", flush=True)
    work((run for run in missing if run.nodes == 1), PLACE)
    swarms = [run for run in missing if run.nodes > 1]
    with ThreadPoolExecutor(SWARMS_AT_ONCE) as pool:
        list(pool.map(lambda run: work(iter([run]), PLACE), swarms))
    return [json.loads(row_file(run, PLACE).read_text("utf-8")) for run in runs]


def _show(rows: Sequence[Any]) -> None:
    print("\n\n".join(render(rows).values()))


def _keep(rows: Sequence[Any]) -> None:
    """Put rows in place of those of their parts, and make the page."""
    made = {row["part"] for row in rows}
    kept = [row for row in read_rows(ROWS) if row["part"] not in made] + list(rows)
    write_rows(ROWS, kept)
    _make_page(kept)


def _make_page(rows: Sequence[Any]) -> None:
    page = RESULTS / "split.md"
    write_atomically(page, fill(page.read_text("utf-8"), render(rows), "split"))
    (RESULTS / "split.png").write_bytes(draw(rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
