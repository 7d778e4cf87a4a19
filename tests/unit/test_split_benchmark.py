"""The study of generation and training apart: what is run, what is read off, what is concluded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarmnode.config.settings import load_settings
from swarmnode.types import Evaluation, RoundReport, TaskRewards
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.split_protocol import (
    CONFIRMATION_SEEDS,
    LAGS,
    PARTS,
    QUESTIONS,
    SEEDS,
    SPEED_REPEATS,
    SplitRun,
    runs_of,
)
from tests.benchmarks.split_rows import Row, row_of
from tests.benchmarks.split_tables import render

RUN = SplitRun("lag", "4", (), 500, 4, 1)
SPLIT = {
    "split/lag_mean": 1.5,
    "split/lag_max": 2.0,
    "split/age_seconds": 3.0,
    "split/trainer_idle_share": 0.25,
    "split/generator_idle_share": 0.5,
    "split/dropped/lag": 1.0,
    "split/dropped/age": 2.0,
    "split/generated_groups": 60.0,
}


def report(number: int, metrics: Mapping[str, float], success: str | None = None) -> RoundReport:
    nothing = TaskRewards({})
    told = {"mix/external_groups": 0.0, **metrics}
    one = RoundReport(0, number, 2.0 * number, nothing, nothing, metrics=told)
    marks = None if success is None else Evaluation({"task": success}, {"task": success})
    return replace(one, evaluation=marks)


def test_every_arm_is_run_under_every_seed_once_and_its_settings_are_known() -> None:
    runs = list(runs_of((*SEEDS, *CONFIRMATION_SEEDS), 1.0))
    assert len({run.name for run in runs}) == len(runs)
    assert {run.part for run in runs} == set(PARTS)
    for run in runs:
        settings = load_settings(assignments=run.settings)
        assert (settings.policy.mode == "sync") == run.arm.startswith("sync")
        assert run.rounds >= 4
    seeds = {part: {run.seed for run in runs if run.part == part} for part in PARTS}
    assert seeds.pop("confirmation") == set(CONFIRMATION_SEEDS)
    assert seeds.pop("speed") == set(SEEDS[:SPEED_REPEATS])
    assert all(each == set(SEEDS) for each in seeds.values())
    lags = [run for run in runs if run.part == "lag" and run.arm != "sync"]
    room = [load_settings(assignments=run.settings).policy for run in lags[: len(LAGS)]]
    assert [each.max_policy_lag for each in room] == list(LAGS)
    assert all((each.queue_groups or 0) > QUESTIONS * each.max_policy_lag for each in room)


def test_a_row_is_read_off_the_counted_rounds_and_the_last_evaluations() -> None:
    rounds = [report(number, SPLIT) for number in range(1, 7)]
    rounds[1:] = [replace(one, clock_seconds=9.0 + 3.0 * one.round) for one in rounds[1:]]
    for place, marks in ((1, "0000"), (3, "1000"), (4, "1100"), (5, "1110")):
        rounds[place] = replace(
            rounds[place], evaluation=Evaluation({"task": marks}, {"task": marks})
        )
    row = row_of(RUN, [[report(0, {}, "1000"), *rounds]])
    assert row["held_out_start"] == 0.25
    assert row["held_out"] == pytest.approx(0.5)
    assert row["seconds"] == 3.0
    assert (row["lag_mean"], row["lag_max"], row["stale"]) == (1.5, 2.0, 0.05)
    assert (row["produce"], row["trainer_idle"]) == (None, 0.25)
    together = [report(n, {"seconds/produce": 1.0, "seconds/learn": 4.0}) for n in range(7)]
    alone = row_of(RUN, [together])
    assert (alone["produce"], alone["learn"], alone["lag_mean"]) == (1.0, 4.0, None)


def row(part: str, arm: str, seed: int, **figures: Any) -> Row:
    made: Any = dict(row_of(RUN, [[report(n, SPLIT, "1100") for n in range(7)]]))
    changed: Row = made | {"part": part, "arm": arm, "seed": seed, **figures}
    return changed


@pytest.mark.parametrize(
    ("differences", "verdict"),
    [
        ((0.0, 0.01, -0.01, 0.0, 0.01), "is no worse"),
        ((-0.05, 0.05, -0.04, 0.04, 0.0), "is not shown to be no worse"),
        ((-0.03, -0.03, -0.03, -0.03, -0.03), "is not shown to be no worse"),
    ],
)
def test_split_is_no_worse_where_the_lower_end_of_the_interval_says_so(
    differences: tuple[float, ...], verdict: str
) -> None:
    rows = [row("swarm", "sync", seed, held_out=0.5) for seed in SEEDS]
    rows += [
        row("swarm", "split", seed, held_out=0.5 + each)
        for seed, each in zip(SEEDS, differences, strict=True)
    ]
    assert verdict in render(rows)["swarm"]


def test_the_bound_is_the_longer_phase_and_the_page_has_a_place_for_every_table() -> None:
    rows = [
        row("speed", "sync", 500, seconds=5.0, produce=1.0, learn=4.0),
        row("speed", "split", 500, seconds=4.4),
        row("speed", "sync 2 threads", 500, seconds=4.0, produce=1.0, learn=3.0),
        *(row("lag", str(lag), 500, seconds=4.0) for lag in LAGS),
    ]
    blocks = render(rows)
    assert "| split | 4.40 | 1.14 | 91 % |" in blocks["speed"]
    assert "| 16 | 1.00 |" in blocks["lag"]
    assert blocks["generators"] == "Not run."
    page = Path("docs/results/split.md").read_text("utf-8")
    assert blocks["lag"] in fill(page, blocks, "split")
