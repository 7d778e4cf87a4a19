"""`make bench NAME=mismatch`: does truncated importance sampling stand a sampler that is off?

Runs mismatch_protocol.py, one run a core, and writes docs/results/mismatch.json, the tables of
mismatch.md and mismatch.png. A run that is whole in runs/mismatch/ is not run again, so that an
interrupted study goes on where it was. `ARGUMENTS=development` runs the development seed,
`ARGUMENTS=try` the same on few rounds; both write into runs/mismatch/ and leave docs alone.
`ARGUMENTS=page` makes tables and picture of what mismatch.json holds.
"""

from __future__ import annotations

import sys

from tests.benchmarks import (
    mismatch_protocol,
    mismatch_rows,
    mismatch_run,
    mismatch_sampler,
    ordering,
    ordering_groups,
)
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
    code=(
        *(mismatch_protocol, mismatch_sampler, mismatch_run, mismatch_rows),
        *(ordering, ordering_groups),
    ),
    render=render,
    draw=draw,
    drawn="Held-out success over rounds under each correction, a panel for each sampler",
)


if __name__ == "__main__":
    sys.exit(STUDY.run(sys.argv[1:]))
