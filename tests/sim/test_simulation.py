"""Small real swarms: real children, real models, real questions, the real wire format."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from swarmnode.config.settings import Settings, load_settings
from swarmnode.process import ChildGone
from swarmnode.sim.folder import RunFolder
from swarmnode.sim.machine import Machine
from swarmnode.sim.study import Arm, arms, run_study
from swarmnode.sim.summary import Run
from swarmnode.types import RoundReport

SMALL = [
    "simulation.nodes=4",
    "simulation.hosts=1",
    "simulation.rounds=3",
    "simulation.seed=7",
    'tasks.names=["basic_arithmetic", "binary_matrix"]',
    "policy.warm_start.base_steps=10",
    "policy.warm_start.base_pairs_per_task=50",
    "policy.warm_start.steps=10",
    "policy.warm_start.pairs_per_task=50",
    "evaluation.questions_per_task=5",
    "evaluation.every_rounds=2",
    "selection.filter=uniform",
]


class Watching:
    """Progress that keeps everything and may act after a round."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.found: list[str] = []

    def ready(self, arm: Arm, figures: Mapping[str, float]) -> None:
        assert figures["parameters"] > 10_000

    def round_ended(
        self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
    ) -> None:
        self.rounds.append(reports[0].round)

    def already_there(self, arm: Arm) -> None:
        self.found.append(f"{arm.variant} {arm.seed}")


def settings(*assignments: str) -> Settings:
    return load_settings(assignments=[*SMALL, *assignments])


def run(
    tmp_path: Path,
    chosen: Settings,
    progress: Watching,
    mixes: Sequence[tuple[int, int]] = ((2, 2),),
) -> tuple[list[Run], bool]:
    variants = {
        f"{local}/{external}": chosen.model_copy(
            update={
                "rounds": chosen.rounds.model_copy(
                    update={
                        "local_groups_per_round": local,
                        "external_groups_per_round": external,
                    }
                )
            }
        )
        for local, external in mixes
    }
    return run_study(
        arms(variants, 1),
        tmp_path,
        environment=os.environ,
        cache=tmp_path / "cache",
        progress=progress,
    )


def without_timings(run: Run) -> list[RoundReport]:
    return [replace(report, clock_seconds=0.0) for report in run.reports]


def test_the_same_seed_gives_the_same_numbers_on_one_host_and_on_two(tmp_path: Path) -> None:
    one, whole = run(tmp_path / "one", settings(), Watching())
    two, _ = run(tmp_path / "two", settings("simulation.hosts=2"), Watching())
    assert whole
    assert list(one[0].reports) == list(two[0].reports)
    reports = one[0].reports
    assert {(report.node, report.round) for report in reports} == {
        (node, number) for node in range(4) for number in range(4)
    }
    assert [r.round for r in reports if r.node == 0 and r.evaluation] == [0, 2, 3]
    assert any(report.metrics["mix/external_groups"] > 0 for report in reports if report.round > 1)
    marks = [marks for r in reports if r.evaluation for marks in r.evaluation.sampled.values()]
    assert all(len(each) == 5 for each in marks)


def test_a_finished_run_is_read_and_another_mix_is_run(tmp_path: Path) -> None:
    first, _ = run(tmp_path, settings(), Watching(), [(2, 0)])
    again = Watching()
    both, whole = run(tmp_path, settings(), again, [(2, 0), (1, 1)])
    assert whole
    assert again.found == ["2/0 7"]
    assert again.rounds == [0, 1, 2, 3]
    assert without_timings(both[0]) == without_timings(first[0])
    assert all(report.metrics.get("mix/external_groups", 0) == 0 for report in both[0].reports)
    changed = Watching()
    run(tmp_path, settings("training.learning_rate=0.5"), changed, [(2, 0)])
    assert changed.found == []


def test_ctrl_c_leaves_what_was_done(tmp_path: Path) -> None:
    class Interrupting(Watching):
        def round_ended(
            self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
        ) -> None:
            super().round_ended(arm, reports, answers)
            if reports[0].round == 2:
                os.kill(os.getpid(), signal.SIGINT)

    # What a shell starts in the background ignores the signal, and so would we.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runs, whole = run(tmp_path, settings("simulation.rounds=500"), Interrupting())
    finally:
        signal.signal(signal.SIGINT, before)
    assert not whole
    assert max(report.round for report in runs[0].reports) in (2, 3)
    assert not RunFolder(tmp_path / "runs" / "2-2-seed7").finished(settings())


def test_a_policy_host_that_dies_ends_the_run_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines = remembered_machines(monkeypatch)

    class Killing(Watching):
        def round_ended(
            self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
        ) -> None:
            if reports[0].round == 1:
                victim = machines[0].hosts[0].process_id
                assert victim is not None
                os.kill(victim, signal.SIGKILL)

    with pytest.raises(ChildGone, match="policy host 0"):
        run(tmp_path, settings(), Killing())


def test_a_scorer_that_dies_is_replaced_and_changes_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed, _ = run(tmp_path / "undisturbed", settings(), Watching())
    machines = remembered_machines(monkeypatch)

    class Killing(Watching):
        def round_ended(
            self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
        ) -> None:
            if reports[0].round == 1:
                victim = machines[0].scoring.process_id
                assert victim is not None
                os.kill(victim, signal.SIGKILL)

    disturbed, whole = run(tmp_path / "disturbed", settings(), Killing())
    assert whole
    assert machines[0].scoring.starts == 2
    assert list(disturbed[0].reports) == list(undisturbed[0].reports)


def remembered_machines(monkeypatch: pytest.MonkeyPatch) -> list[Machine]:
    machines: list[Machine] = []

    class Remembered(Machine):
        def start(self) -> None:
            machines.append(self)
            super().start()

    monkeypatch.setattr("swarmnode.sim.study.Machine", Remembered)
    return machines
