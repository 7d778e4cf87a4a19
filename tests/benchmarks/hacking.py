"""`make bench NAME=hacking`: two ways in which a policy games its reward, and who sees it first.

Runs hacking_protocol.py, one run a core, and writes docs/results/hacking.json, the tables of
hacking.md and hacking.png. A run that is whole in runs/hacking/ is not run again, so that an
interrupted study goes on where it was. `ARGUMENTS=development` runs the development seed,
`ARGUMENTS=try` the same on few rounds; both write into runs/hacking/ and leave docs alone.
`ARGUMENTS=page` makes tables and picture of what hacking.json holds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks import (
    hacking_length,
    hacking_policy,
    hacking_protocol,
    hacking_rounds,
    hacking_rows,
    hacking_spaces,
    ordering,
    ordering_groups,
)
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
from tests.benchmarks.short_runs import kept
from tests.benchmarks.short_study import ShortStudy


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


STUDY = ShortStudy(
    name="hacking",
    runs_of=all_runs,
    seeds=SEEDS,
    development_seeds=DEVELOPMENT_SEEDS,
    rounds=ROUNDS,
    seconds_a_run=SECONDS_A_RUN,
    work=work,
    code=(
        *(hacking_protocol, hacking_policy, hacking_rounds, hacking_rows),
        *(hacking_spaces, hacking_length, ordering, ordering_groups),
    ),
    render=render,
    draw=draw,
    drawn="Spaces dropped over rounds by sampler, ratio and inner steps; below, tokens, the reward "
    "model's score and worth by arm",
)


if __name__ == "__main__":
    sys.exit(STUDY.run(sys.argv[1:]))
