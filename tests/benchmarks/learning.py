"""`make bench NAME=learning`: what smollm2-135m learns when swarmnode trains it, over three seeds.

Runs the protocol of docs/results/smollm2.md with the real program, one run after the other (about
7 minutes each on a core), and writes what was measured into that page and beside it into
smollm2.json. A run that is whole in runs/smollm2 is read, not made again.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from swarmnode.files import write_atomically
from swarmnode.pass_rates import Interval, Values, difference
from swarmnode.sim.folder import RunFolder
from tests.benchmarks.sharing_markdown import fill, percent, points, table

SEEDS = (0, 1, 2)
ROUNDS = 40
TASK = "basic_arithmetic"
RUNS = Path("runs") / "smollm2"
PAGE = Path("docs") / "results" / "smollm2.md"
MEASURED = Path("docs") / "results" / "smollm2.json"
SETTINGS = (
    "policy.examples=2",
    "policy.max_new_tokens=8",
    "rounds.completions_per_group=16",
    "training.learning_rate=2e-5",
    "training.warmup_steps=3",
    "evaluation.questions_per_task=200",
    "evaluation.every_rounds=1000",
)

Marks = Mapping[str, Sequence[str]]
"""`sampled` and `greedy`: a text of "1" and "0" at the start and at the end."""
Measured = Mapping[str, Marks]
"""By seed."""


def command(seed: int) -> list[str]:
    """One run, as a user would start it."""
    words = ["simulate", "--model", "smollm2-135m", "--nodes", "1", "--mix", "8/0"]
    words += ["--rounds", str(ROUNDS), "--seed", str(seed), "--task", TASK, "--level", "easy"]
    for setting in SETTINGS:
        words += ["--set", setting]
    return [sys.executable, "-m", "swarmnode", *words, "--out", str(RUNS / f"seed{seed}")]


def marks_of(seed: int) -> Marks:
    """What a whole run measured at its start and its end."""
    reports = RunFolder(RUNS / f"seed{seed}" / "runs" / f"8-0-seed{seed}").read()
    start, end = (one.evaluation for one in (reports[0], reports[-1]))
    if start is None or end is None or reports[-1].round != ROUNDS:
        raise ValueError(f"the run of seed {seed} is not whole")
    return {
        "sampled": [start.sampled[TASK], end.sampled[TASK]],
        "greedy": [start.greedy[TASK], end.greedy[TASK]],
    }


def render(measured: Measured) -> str:
    """The table of the page; the last line pairs each question's mean over the seeds."""
    lines = []
    for kind in ("sampled", "greedy"):
        for seed, marks in measured.items():
            start, end = map(_values, marks[kind])
            lines.append([kind, seed, *_cells(start, end)])
        seeds = list(measured.values())
        means = [_mean([_values(marks[kind][place]) for marks in seeds]) for place in (0, 1)]
        lines.append([f"**{kind}**", f"all {len(seeds)}", *_cells(*means)])
    head = ["answers", "seed", "start, %", "end, %", "gain, points", "95 % interval"]
    return table(head, lines)


def _cells(start: Values, end: Values) -> list[str]:
    gain: Interval = difference(start, end)
    ends = f"{points(gain.low)} to {points(gain.high)}"
    return [_percent(start), _percent(end), points(gain.mean), ends]


def _percent(values: Values) -> str:
    (each,) = values.values()
    return percent(sum(each) / len(each))


def _values(marks: str) -> Values:
    return {TASK: [float(mark) for mark in marks]}


def _mean(seeds: Sequence[Values]) -> Values:
    columns = zip(*(values[TASK] for values in seeds), strict=True)
    return {TASK: [sum(column) / len(column) for column in columns]}


def make_page(measured: Measured) -> None:
    """Write the table into the page."""
    page = fill(PAGE.read_text("utf-8"), {"gain": render(measured)}, "smollm2")
    write_atomically(PAGE, page)


def main(arguments: Sequence[str]) -> int:
    """Run what is not there yet, then write page and figures; `page` makes the page alone."""
    if list(arguments) == ["page"]:
        make_page(json.loads(MEASURED.read_text("utf-8")))
        return 0
    for seed in SEEDS:
        ended = subprocess.run(command(seed))
        if ended.returncode:
            return ended.returncode
    measured = {str(seed): marks_of(seed) for seed in SEEDS}
    write_atomically(MEASURED, json.dumps(measured, indent=1) + "\n")
    make_page(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
