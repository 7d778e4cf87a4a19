"""`make bench NAME=mixing`: does it help to mix data as HDS does?

`ARGUMENTS=development` tries each arm's options on the development seed and freezes them; then no
argument runs the main part and the controls, `ARGUMENTS=ablations` the second stage, and after it
`ARGUMENTS=headroom` how much there is to win. `ARGUMENTS=cost` measures a step, one run at a time.
`ARGUMENTS=try` runs ten steps of every arm, `ARGUMENTS=page` only makes the page of what
docs/results/mixing.json holds. One run a core, each on one thread; a run that is whole in
runs/mixing/ is not run again and one that was stopped goes on, so that the study may be interrupted
at any time. The corpus is made first, from what this machine has (mixing_corpora.py).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import torch

from swarmnode.files import write_atomically
from swarmnode.pretraining.corpus import Domain
from swarmnode.pretraining.folder import Row as Step
from swarmnode.pretraining.run import Finished, pretrain, sources_of
from tests.benchmarks.mixing_corpora import write_corpus
from tests.benchmarks.mixing_figure import draw
from tests.benchmarks.mixing_page import costs, render, runs_by_arm, slopes
from tests.benchmarks.mixing_protocol import (
    ARMS,
    CHOICES,
    MEGABYTES,
    SLOPES,
    Choices,
    StudyRun,
    cost_runs,
    frozen_choices,
    frozen_slopes,
    headroom_runs,
    option_runs,
    rate_runs,
    runs_of,
    trial_runs,
)
from tests.benchmarks.mixing_rows import Row, best_option, row_of
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.studies import on_every_core
from tests.benchmarks.study_rows import keep_rows

OUT = Path("runs") / "mixing"
RESULTS = Path("docs") / "results"
FILE = RESULTS / "mixing.json"
TRIAL_STEPS = 10


class Lines:
    """Prints a line when a run ends."""

    def __init__(self, run: StudyRun) -> None:
        self._run = run
        self._started = time.monotonic()

    def ready(self, domains: Sequence[Domain], parameters: int, steps: int) -> None:
        """Texts and model are there."""
        self._started = time.monotonic()

    def row(self, row: Step) -> None:
        """Tell of the last step."""
        if row.step == self._run.steps and row.validation is not None:
            seconds = time.monotonic() - self._started
            loss = sum(row.validation) / len(row.validation)
            print(
                f"{time.strftime('%H:%M:%S')}  {self._run.name}  macro {loss:.4f}  {seconds:.0f} s",
                flush=True,
            )


def corpus() -> Path:
    """The texts, made once; returns the file that names them."""
    folder = OUT / "corpus"
    if not (folder / "manifest.json").exists():
        write_corpus(folder, MEGABYTES)
    return folder / "texts.toml"


def run_one(run: StudyRun, texts: Path) -> Finished:
    """Make the run, or what is left of it."""
    settings = run.settings(texts)
    sources = sources_of(settings, texts.parent)
    cache = OUT / "prepared"
    folder, clock = OUT / "runs" / run.name, time.process_time
    return pretrain(settings, sources, folder, cache, Lines(run), lambda: False, clock)


def make(runs: Iterable[StudyRun]) -> list[Row] | None:
    """Make all runs, one a core; their rows, or None when interrupted or when a core failed."""
    wanted, texts = list(runs), corpus()
    missing = [run for run in wanted if not _row_file(run).exists()]
    print(f"{len(wanted) - len(missing)} of {len(wanted)} runs are there", flush=True)
    if not on_every_core(_work, missing, texts):
        return None
    return [json.loads(_row_file(run).read_text("utf-8")) for run in wanted]


def _work(runs: Iterator[StudyRun], texts: Path) -> None:
    torch.set_num_threads(1)
    for run in runs:
        finished = run_one(run, texts)
        facts = [domain.facts for domain in finished.domains]
        row = row_of(
            run,
            finished.rows,
            [each.name for each in facts],
            finished.static,
            [each.rows for each in facts],
            finished.parameters,
        )
        write_atomically(_row_file(run), json.dumps(row))


def _row_file(run: StudyRun) -> Path:
    """Written when the run is whole."""
    return OUT / "runs" / run.name / "row.json"


def freeze(rows: Sequence[Row]) -> None:
    """Write the option of each arm that was best on the development seed."""
    choices = {
        "learning_rate": best_option(rows, "uniform")["learning_rate"],
        "options": {arm.name: best_option(rows, arm.name)["option"] for arm in ARMS if arm.options},
    }
    write_atomically(CHOICES, json.dumps(choices, indent=1) + "\n")


def make_page(rows: Sequence[Row]) -> None:
    """Write the tables of the page, and the picture once there is something to draw."""
    page = RESULTS / "data-mixing.md"
    write_atomically(page, fill(page.read_text("utf-8"), render(rows), "mixing"))
    if any(row["stage"] == "main" for row in rows):
        write_atomically(RESULTS / "data-mixing.png", draw(rows))


def develop() -> int:
    """The development stage."""
    rates = make(rate_runs())
    if rates is None:
        return _stopped()
    rate = best_option(rates, "uniform")["learning_rate"]
    options = make(option_runs(rate))
    if options is None:
        return _stopped()
    rows = keep_rows(FILE, [*rates, *options])
    freeze(rows)
    make_page(rows)
    return 0


def headroom(choices: Choices) -> int:
    """Twice the share of each domain; then shares that follow what this was worth."""
    probes = make(runs_of("probes", choices))
    if probes is None:
        return _stopped()
    found = slopes(keep_rows(FILE, probes))
    means = {name: each.mean for name, each in found.items()}
    write_atomically(SLOPES, json.dumps(means, indent=1) + "\n")
    return stage(headroom_runs(frozen_slopes(), choices), _kept_on_the_page)


def cost(choices: Choices) -> int:
    """One run after another, for an idle machine."""
    rows: list[Row] = []
    for run in cost_runs(choices):
        made = make([run])
        if made is None:
            return _stopped()
        rows += made
    _kept_on_the_page(rows)
    return 0


def stage(runs: Iterable[StudyRun], then: Callable[[Sequence[Row]], None]) -> int:
    """Make runs and do what is to be done with their rows."""
    rows = make(runs)
    if rows is None:
        return _stopped()
    then(rows)
    return 0


def _stopped() -> int:
    print("stopped; give the same command to go on")
    return 130


def _kept_on_the_page(rows: Sequence[Row]) -> None:
    make_page(keep_rows(FILE, rows))


def _show_costs(rows: Sequence[Row]) -> None:
    print(costs(runs_by_arm(rows, "try")))


def _main_part(choices: Choices) -> Iterable[StudyRun]:
    yield from runs_of("main", choices)
    yield from runs_of("controls", choices)


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    match list(arguments):
        case ["try"]:
            return stage(trial_runs(TRIAL_STEPS), _show_costs)
        case ["development"]:
            return develop()
        case ["ablations"]:
            return stage(runs_of("ablations", frozen_choices()), _kept_on_the_page)
        case ["headroom"]:
            return headroom(frozen_choices())
        case ["cost"]:
            return cost(frozen_choices())
        case ["page"]:
            make_page(json.loads(FILE.read_text("utf-8")))
            return 0
        case []:
            return stage(_main_part(frozen_choices()), _kept_on_the_page)
    print(
        "make bench NAME=mixing takes ARGUMENTS=try, development, ablations, headroom, cost, page "
        "or none"
    )
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
