"""`make bench NAME=mismatch`: does truncated importance sampling stand a sampler that is off?

Runs mismatch_protocol.py, one run a core, and writes docs/results/mismatch.json, the tables of
mismatch.md and mismatch.png. A run that is whole in runs/mismatch/ is not run again, so that an
interrupted study goes on where it was. `ARGUMENTS=development` runs the development seed and prints
the tables, `ARGUMENTS=try` the same on few rounds; neither writes a page. `ARGUMENTS=page` makes
tables and picture of what mismatch.json holds.
"""

from __future__ import annotations

import sys

from tests.benchmarks.mismatch_figure import draw
from tests.benchmarks.mismatch_protocol import (
    DEVELOPMENT_SEEDS,
    ROUNDS,
    SECONDS_A_RUN,
    SEEDS,
    runs_of,
)
from tests.benchmarks.mismatch_run import work
from tests.benchmarks.mismatch_tables import render
from tests.benchmarks.short_study import ShortStudy

STUDY = ShortStudy(
    name="mismatch",
    runs_of=lambda seeds, rounds: list(runs_of(seeds, rounds)),
    seeds=SEEDS,
    development_seeds=DEVELOPMENT_SEEDS,
    rounds=ROUNDS,
    seconds_a_run=SECONDS_A_RUN,
    work=work,
    render=render,
    draw=draw,
)


if __name__ == "__main__":
    sys.exit(STUDY.run(sys.argv[1:]))
