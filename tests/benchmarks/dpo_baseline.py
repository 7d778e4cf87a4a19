"""`make bench NAME=dpo`: is GRPO better than DPO from the same start, at the same budget?

`ARGUMENTS=try` goes through everything once, short; `ARGUMENTS=development` tries the learning
rates on the development seeds and freezes the best of each method; then no argument runs the main
part. `ARGUMENTS=page` only makes the page of what docs/results/dpo.json holds. One seed a core;
what is whole in runs/dpo/ is not run again. It needs TRL, of the extra `dev`.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from swarmnode.cli.reward_model import REPORT
from swarmnode.files import write_atomically
from swarmnode.home import Home
from swarmnode.policy.checkpoint import sound_checkpoint
from swarmnode.policy.described import describe
from swarmnode.reports import report_from_json
from swarmnode.store.reading import stored_rounds
from tests.benchmarks.dpo_page import PAGE, RESULTS, Row, best_rate, make_page, tried_rates
from tests.benchmarks.dpo_pairs import line_of, pairs_of
from tests.benchmarks.dpo_protocol import (
    BETA,
    CHOICES,
    COMPLETIONS,
    PAIRS_PER_GROUP,
    PAIRS_PER_STEP,
    RATES,
    WARMUP_STEPS,
    Method,
    SeedRun,
    Stage,
    compare_command,
    grpo_command,
    judge_command,
    runs_of,
    settings_for,
)
from tests.benchmarks.dpo_sampling import sampled_groups, write_start
from tests.benchmarks.dpo_training import Recipe, train
from tests.benchmarks.studies import on_every_core
from tests.benchmarks.study_rows import read_rows

OUT = Path("runs") / "dpo"


def program(words: Sequence[str]) -> str:
    """What the real command writes to stdout. Raises CalledProcessError."""
    ended = subprocess.run(
        [sys.executable, "-m", "swarmnode", *words], check=True, stdout=subprocess.PIPE, text=True
    )
    return ended.stdout


class SeedFolder:
    """What a seed leaves on disk; whatever is there is not made again."""

    def __init__(self, run: SeedRun, place: Path) -> None:
        self._run = run
        self._folder = place / run.stage / f"seed-{run.seed}"
        self._folder.mkdir(parents=True, exist_ok=True)

    def row(self) -> Row:
        """Make everything of the seed, or what is left of it."""
        file = self._folder / "row.json"
        if not file.exists():
            began = time.monotonic()
            made = {**self._made(), "seconds": round(time.monotonic() - began)}
            write_atomically(file, json.dumps(made, allow_nan=False) + "\n")
        row: Row = json.loads(file.read_text("utf-8"))
        return row

    def _made(self) -> Row:
        start = self._start()
        grpo = {rate: self._grpo(start, rate) for rate in self._run.rates["grpo"]}
        # Live rounds hardly depend on the rate; the budget is that of the middle one.
        steps = sorted(_steps(home) for home in grpo.values())[len(grpo) // 2]
        dpo = self._dpo(start, next(iter(grpo.values())), steps)
        row: Row = {
            "stage": self._run.stage,
            "seed": self._run.seed,
            "grpo": {
                str(rate): {
                    "steps": _steps(home),
                    "tokens": _trained_tokens(home),
                    "against_start": self._compared(home, start),
                }
                for rate, home in grpo.items()
            },
            "dpo": {
                str(rate): {**figures, "against_start": self._compared(folder, start)}
                for rate, (folder, figures) in dpo.items()
            },
        }
        if len(grpo) == len(dpo) == 1:
            ((rate, home),), ((folder, _),) = grpo.items(), dpo.values()
            row["grpo_against_dpo"] = self._compared(home, folder)
            row["judged"] = self._judged(start, rate, folder)
        return row

    def _judged(self, start: Path, rate: float, dpo: Path) -> dict[str, Any]:
        """GRPO that is paid by a reward model out of DPO's own pairs."""
        judge = self._folder / "judge"
        if not judge.exists():
            program(judge_command(self._pairs, self._run, judge))
        home = self._folder / "grpo-judged"
        program(grpo_command(start, self._run, rate, home, judge))
        found = json.loads((judge / REPORT).read_text("utf-8"))
        return {
            "steps": _steps(home),
            "accuracy": found["accuracy"]["mean"],
            "length_correlation": found["length_correlation"]["mean"],
            "against_dpo": self._compared(home, dpo),
            "against_start": self._compared(home, start),
        }

    @property
    def _pairs(self) -> Path:
        return self._folder / "pairs.jsonl"

    def _start(self) -> Path:
        folder = self._folder / "start"
        if not folder.exists():
            temporary = self._new("start.making")
            temporary.mkdir()
            write_start(settings_for("tiny"), self._run.seed, temporary.absolute())
            temporary.rename(folder)
        return folder

    def _grpo(self, start: Path, rate: float) -> Path:
        """A run of the real command; one that was stopped goes on."""
        home = self._folder / f"grpo-{rate:g}"
        program(grpo_command(start, self._run, rate, home))
        return home

    def _dpo(self, start: Path, home: Path, steps: int) -> dict[float, tuple[Path, dict[str, Any]]]:
        settings = settings_for(str(start.absolute()))
        seed, rates = self._run.seed, self._run.rates["dpo"]
        groups = sampled_groups(settings, seed, Home(home), self._run.questions, COMPLETIONS)
        pairs = pairs_of(groups, PAIRS_PER_GROUP, random.Random(seed))
        write_atomically(self._pairs, "".join(map(line_of, pairs)))
        found = {}
        for rate in rates:
            recipe = Recipe(steps, PAIRS_PER_STEP, rate, BETA, WARMUP_STEPS, seed)
            folder = self._new(f"dpo-{rate:g}")
            figures = train(start, pairs, folder, recipe)
            found[rate] = folder, {"steps": steps, "pairs": len(pairs), **asdict(figures)}
        return found

    def _compared(self, a: Path, b: Path) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(program(compare_command(a, b, self._run)))
        return document

    def _new(self, name: str) -> Path:
        folder = self._folder / name
        shutil.rmtree(folder, ignore_errors=True)
        return folder


def _steps(home: Path) -> int:
    return describe(sound_checkpoint(Home(home).checkpoints, None)).version


def _trained_tokens(home: Path) -> int:
    rounds = stored_rounds(Home(home).database)
    metrics = (report_from_json(each.report).metrics for each in rounds)
    return int(sum(each.get("tokens/local", 0.0) for each in metrics))


def _work(runs: Iterator[SeedRun], place: Path) -> None:
    import torch

    torch.set_num_threads(1)
    for run in runs:
        row = SeedFolder(run, place).row()
        print(f"{time.strftime('%H:%M:%S')}  seed {run.seed}  {row['seconds']} s", flush=True)


def make(stage: Stage) -> list[Row] | None:
    """All rows of a stage; None when interrupted or when a core failed."""
    runs = runs_of(stage)
    if not on_every_core(_work, runs, OUT):
        print("stopped; give the same command to go on")
        return None
    return [SeedFolder(run, OUT).row() for run in runs]


def freeze(rows: Sequence[Row]) -> None:
    """Write what each rate of each method gave on the development seeds, and which was best."""
    methods: tuple[Method, ...] = ("grpo", "dpo")
    tried = {method: tried_rates(rows, method, RATES[method]) for method in methods}
    chosen = {method: best_rate(rows, method, RATES[method]) for method in methods}
    write_atomically(CHOICES, json.dumps({"chosen": chosen, "tried": tried}, indent=1) + "\n")


def main(arguments: Sequence[str]) -> int:
    """The command; returns its exit code."""
    match list(arguments):
        case ["try"]:
            if (rows := make("try")) is not None:
                (OUT / "try" / RESULTS.name).write_text(json.dumps(rows) + "\n", "utf-8")
                make_page(rows, OUT / "try" / PAGE.name)
                print(f"written: {OUT / 'try' / PAGE.name}")
        case ["development"]:
            if (rows := make("development")) is not None:
                freeze(rows)
        case ["page"]:
            rows = read_rows(RESULTS)
            make_page(rows)
        case []:
            if (rows := make("main")) is not None:
                write_atomically(RESULTS, json.dumps(rows, allow_nan=False) + "\n")
                make_page(rows)
        case _:
            print("make bench NAME=dpo takes ARGUMENTS=try, development, page or none")
            return 2
    return 130 if rows is None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
