"""The study of schedulers: its protocol, what is read off runs, its page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from swarmnode.cli.simulate import check
from swarmnode.types import Evaluation, RoundReport, TaskRewards
from tests.benchmarks.scheduling import RESULTS, freeze
from tests.benchmarks.scheduling_page import render
from tests.benchmarks.scheduling_protocol import (
    ALONE,
    ALONE_PAIRS,
    ARMS,
    BY_STAGE,
    DEVELOPMENT_SEEDS,
    FRESH_SEEDS,
    PRIMARY,
    SECOND,
    SECONDARY,
    TASKS,
    StudyRun,
    development,
    runs_of,
    seeds_of,
    trial_runs,
)
from tests.benchmarks.scheduling_rows import Row, best_option, compared, row_of, runs_by_arm
from tests.benchmarks.sharing_markdown import fill
from tests.benchmarks.study_rows import keep_rows

BY_NAME = {arm.name: arm for arm in (*ARMS, *SECOND, *ALONE)}
OPTIONS = {arm.name: arm.options[1] for arm in ARMS if arm.options}
ALWAYS = {"steps/taken": 1.0, "mix/local_live_groups": 2.0, "mix/external_live_groups": 1.0}


def evaluation(right: int) -> Evaluation:
    marks = dict.fromkeys(TASKS, ("1" * right).ljust(10, "0"))
    return Evaluation(marks, marks, {})


def report(
    node: int, number: int, right: int | None = None, metrics: Mapping[str, float] | None = None
) -> RoundReport:
    return RoundReport(
        node=node,
        round=number,
        clock_seconds=0.0,
        local=TaskRewards({}),
        training_set=TaskRewards({}),
        evaluation=None if right is None else evaluation(right),
        metrics={**ALWAYS, **(metrics or {})},
    )


def reports(start: int, end: int, metrics: Mapping[str, float] | None = None) -> list[RoundReport]:
    """A run of twenty rounds, evaluated at 95 % of them and at the end."""
    found = []
    for node in (0, 1):
        found.append(report(node, 0, start))
        found += [report(node, number, None, metrics) for number in range(1, 19)]
        found += [report(node, 19, end - 1, metrics), report(node, 20, end + 1, metrics)]
    return found


def row(arm: str, end: int, seed: int = 300, stage: str = "main", option: str = "") -> Row:
    steered = "steered" in arm
    told = {f"scheduler/weight/{task}": 1 / 9 for task in TASKS}
    if steered:
        told |= {"steering/offered": 0.5, **{f"steering/taken/{task}": 1 / 9 for task in TASKS}}
    run = StudyRun("main", BY_NAME[arm], seed, option, rounds=20)
    made = row_of(run, reports(2, end, told))
    return {**made, "stage": stage}


def test_a_row_is_what_the_reports_say() -> None:
    metrics = {"scheduler/weight/bf": 0.25, "steering/taken/bf": 0.5, "steering/offered": 0.75}
    found = row_of(StudyRun("main", BY_NAME["sec"], 300, rounds=20), reports(2, 5, metrics))
    assert found["held_out"] == {"start": 0.2, "end": 0.5}
    assert found["by_task"]["bf"] == {"start": 0.2, "end": 0.5}
    assert (found["asked"], found["taken"], found["offered"]) == ({"bf": 0.25}, {"bf": 0.5}, 0.75)
    assert (found["steps"], found["live_own"]) == (20.0, 2.0)
    plain = row_of(StudyRun("main", BY_NAME["uniform"], 300, rounds=20), reports(2, 5))
    assert plain["asked"]["bf"] == pytest.approx(1 / 9, abs=1e-6)
    assert (plain["taken"], plain["offered"]) == ({}, None)
    with pytest.raises(ValueError, match="no held-out success"):
        row_of(StudyRun("main", BY_NAME["sec"], 300, rounds=20), reports(2, 5)[:5])


def test_arms_are_compared_over_the_seeds_that_both_have() -> None:
    rows = [
        row("uniform", 3, 300),
        row("uniform", 6, 301),
        row("sec", 4, 300),
        row("sec", 8, 301),
        row("sec", 2, 302),
    ]
    found = compared(runs_by_arm(rows, "main"), "sec", "uniform")
    assert found.count == 2
    assert found.mean == pytest.approx(0.15)
    with pytest.raises(ValueError, match="comes twice"):
        runs_by_arm([*rows, rows[0]], "main")


def test_the_page_has_the_primary_comparisons_and_no_local_reward() -> None:
    ends = {"uniform": 3, "random": 3, "sec": 4, "hds": 5, "hds frozen": 4, "sec steered": 5}
    rows = [
        row(arm, end + seed % 2, seed, "second" if arm in map(lambda a: a.name, SECOND) else "main")
        for arm, end in ends.items()
        for seed in FRESH_SEEDS
    ]
    blocks = render(rows)
    assert "| hds less uniform | 8 | +20.0 (+20.0 to +20.0) | < 0.001 |" in blocks["answer"]
    assert "| sec steered less sec | 8 | +10.0" in blocks["second"]
    assert "| sec steered | 50.0 | 11.1 → 11.1 |" in blocks["steering"]
    assert "| hds | 8 | 20.0 → 55.0 | +35.0" in blocks["held-out"]
    assert not any("local" in text.lower() for text in blocks.values())
    page = (RESULTS / "scheduling.md").read_text("utf-8")
    assert blocks["answer"] in fill(page, blocks, "scheduling")


def test_the_committed_page_is_that_of_the_committed_rows() -> None:
    page = (RESULTS / "scheduling.md").read_text("utf-8")
    file = RESULTS / "scheduling.json"
    rows = json.loads(file.read_text("utf-8")) if file.exists() else []
    assert fill(page, render(rows), "scheduling") == page


def test_without_runs_every_table_says_so() -> None:
    blocks = render([])
    for name in ("answer", "second", "alone"):
        assert "Not run." in blocks[name]
    for name in ("held-out", "tasks", "asked", "steering", "groups", "development"):
        assert blocks[name] == "Not run."


def test_every_run_of_the_protocol_has_settings_that_a_simulation_takes() -> None:
    seen = {}
    for run in (
        *development(),
        *runs_of("main", OPTIONS),
        *runs_of("second", OPTIONS),
        *runs_of("alone", OPTIONS),
        *trial_runs(3),
    ):
        if run.seed in (FRESH_SEEDS[0], DEVELOPMENT_SEEDS[0]):
            check(run.settings)
            seen[run.simulated.variant] = run.settings.scheduling
    assert len(seen) == 21 + 2 * (len(ARMS) + len(SECOND)) + len(ALONE)
    steered = [name for name, each in seen.items() if each.steer_external and "main" not in name]
    assert len(steered) == 6
    assert all((each.hds.batch or 99) <= 16 for name, each in seen.items() if each.kind == "hds")


def test_runs_of_a_seed_differ_in_nothing_but_the_scheduler() -> None:
    first, *others = [run.settings for run in runs_of("main", OPTIONS) if run.seed == 300]
    for each in others:
        assert each.model_copy(update={"scheduling": first.scheduling}) == first
    # Two evaluations in the last tenth: at 380 and at 400.
    assert first.evaluation.every_rounds == 380
    assert [task for task, _ in first.tasks.pairs] == list(TASKS)


def test_comparisons_name_arms_and_fresh_seeds_are_no_development_seeds() -> None:
    named = {name for pair in (*PRIMARY, *SECONDARY, *ALONE_PAIRS) for name in pair}
    assert named <= set(BY_NAME)
    assert not set(FRESH_SEEDS) & set(DEVELOPMENT_SEEDS)
    assert all(arm.like in ("", *BY_NAME) for arms in BY_STAGE.values() for arm in arms)
    assert {len(arm.options) for arm in ARMS} == {0, 3}
    counts = {arm.name: len(seeds_of(arm)) for arm in (*ARMS, *SECOND, *ALONE)}
    assert {name for name, count in counts.items() if count == 8} == {"uniform", "sec", "hds"}
    assert set(counts.values()) == {4, 8}
    order = [run.arm.name for run in runs_of("main", OPTIONS)]
    assert set(order[:24]) == {"uniform", "sec", "hds"}
    assert len(order) == 24 + 4 * (len(ARMS) - 3)


def test_development_freezes_the_best_option_of_each_arm(tmp_path: Path) -> None:
    rows = [
        row(
            run.arm.name, 2 + run.arm.options.index(run.option), run.seed, "development", run.option
        )
        for run in development()
    ]
    freeze(rows, tmp_path / "options.json")
    chosen = json.loads((tmp_path / "options.json").read_text("utf-8"))
    assert chosen == {arm.name: arm.options[2] for arm in ARMS if arm.options}
    with pytest.raises(ValueError, match="seeds"):
        best_option(rows[:-1], "hds", BY_NAME["hds"].options, DEVELOPMENT_SEEDS)


def test_rows_of_a_stage_take_the_place_of_its_old_ones(tmp_path: Path) -> None:
    file = tmp_path / "scheduling.json"
    keep_rows(file, [row("sec", 4), row("uniform", 3)])
    kept = keep_rows(file, [row("sec", 6)])
    assert [(each["arm"], each["held_out"]["end"]) for each in kept] == [("sec", 0.6)]
    assert [each["arm"] for each in keep_rows(file, [row("hds frozen", 4, stage="second")])] == [
        "sec",
        "hds frozen",
    ]
