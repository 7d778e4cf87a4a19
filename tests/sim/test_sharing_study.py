"""The sharing study in short: every arm of its protocol on a small real swarm, down to its row."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.sim.machine import Machine
from swarmnode.sim.swarm import simulated_swarm
from swarmnode.types import RoundReport
from tests.benchmarks.sharing import protocol
from tests.benchmarks.sharing_page import render
from tests.benchmarks.sharing_protocol import (
    ARMS,
    DEVELOPMENT_SEEDS,
    FRESH_SEEDS,
    RATES,
    StudyRun,
    development,
    main_part,
    rates_of,
)
from tests.benchmarks.sharing_rows import row_of

ROUNDS = 10
SMALL = (
    "simulation.nodes=3",
    'tasks.names=["basic_arithmetic", "binary_matrix", "decimal_arithmetic"]',
    "policy.warm_start.base_steps=60",
    "policy.warm_start.base_pairs_per_task=50",
    "policy.warm_start.steps=5",
    "policy.warm_start.pairs_per_task=20",
    "evaluation.questions_per_task=5",
    "evaluation.every_rounds=5",
    # At such a start nearly nothing is right: more answers, so that some groups are live.
    "rounds.completions_per_group=32",
    "rounds.questions_limit=16",
)


@dataclass(frozen=True)
class Small:
    """An arm's run, shortened."""

    run: StudyRun
    reports: Sequence[RoundReport]

    def mean(self, name: str) -> float:
        later = [report for report in self.reports if report.round > 2]
        return sum(report.metrics.get(name, 0.0) for report in later) / len(later)


async def _reports(run: StudyRun, machine: Machine, cache: Path) -> list[RoundReport]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    async with simulated_swarm(run.settings, machine, VirtualClock(loop), cache) as swarm:
        return [report async for reports in swarm.rounds() for report in reports]


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Small]]:
    cache = tmp_path_factory.mktemp("cache")
    made: dict[str, Small] = {}
    runs = [StudyRun("main", arm, 2e-4, 100, rounds=ROUNDS, more=SMALL) for arm in ARMS]
    machine = Machine(runs[0].settings, os.environ)
    machine.start()
    try:
        for run in runs:
            with asyncio.Runner(loop_factory=VirtualLoop) as runner:
                made[run.arm.name] = Small(run, runner.run(_reports(run, machine, cache)))
        yield made
    finally:
        machine.close()


def test_arms_start_alike_and_differ_in_what_they_train_on(arms: Mapping[str, Small]) -> None:
    starts = {
        json.dumps(
            [dict(r.evaluation.sampled) for r in arm.reports if r.evaluation and r.round == 0]
        )
        for arm in arms.values()
    }
    assert len(starts) == 1
    assert arms["8/0"].mean("generated/groups") == 8
    assert arms["8/0"].mean("mix/external_groups") == 0
    assert arms["8/0 positive"].mean("completions/masked_local") > 0
    assert arms["4/4 both"].mean("completions/masked_external") == 0
    assert arms["4/4 positive"].mean("completions/masked_external") > 0
    for name in ("4/4 replay", "4/4 both", "4/4 positive", "4/4 reference"):
        assert arms[name].mean("generated/groups") == 4
        assert arms[name].mean("mix/external_groups") > 0, name


def test_only_the_sharing_arms_take_from_peers(arms: Mapping[str, Small]) -> None:
    fetching = {name for name, arm in arms.items() if arm.mean("collected/fetched") > 0}
    assert fetching == {"4/4 both", "4/4 positive"}


def test_reference_answers_are_half_right_and_dynamic_sampling_pays_for_live_groups(
    arms: Mapping[str, Small],
) -> None:
    reference, dynamic = arms["4/4 reference"], arms["8/0 dynamic"]
    assert reference.mean("mix/external_groups") == 4
    assert reference.mean("mix/external_live_groups") == 4
    assert dynamic.mean("generated/groups") > 4
    assert dynamic.mean("mix/local_groups") == dynamic.mean("mix/local_live_groups")


def test_a_run_becomes_a_row_and_rows_become_the_page(arms: Mapping[str, Small]) -> None:
    rows = [row_of(arm.run, arm.reports) for arm in arms.values()]
    json.dumps(rows, allow_nan=False)
    sharing = next(row for row in rows if row["arm"] == "4/4 positive")
    assert sharing["curve"]["rounds"] == [0, 5, 10]
    assert sharing["curve"]["local"][0] is None
    assert sharing["held_out"]["end"] == pytest.approx(sharing["curve"]["held_out"][-1], abs=1e-6)
    own, other = sharing["own_tasks"], sharing["other_tasks"]
    assert 0 <= min(own["start"], other["start"]) <= sharing["held_out"]["start"]
    assert sharing["tokens_generated"] > sharing["questions"] * ROUNDS * 32
    page = render(rows, replace(protocol(), tasks=list(sharing["by_task"])))
    assert "4/4 positive" in page["answer"]
    assert page["rates"] == "Not run."


def test_the_protocol_pairs_arms_by_seed_and_keeps_development_seeds_apart() -> None:
    assert not set(DEVELOPMENT_SEEDS) & set(FRESH_SEEDS)
    runs = list(main_part({arm.name: RATES[0] for arm in ARMS}))
    by_arm = {
        arm.name: {run.seed for run in runs if run.stage == "main" and run.arm is arm}
        for arm in ARMS
    }
    assert set(map(frozenset, by_arm.values())) == {frozenset(FRESH_SEEDS)}
    runs_of_rates = sum(len(rates_of(arm.name)) for arm in ARMS)
    assert len(list(development())) == runs_of_rates * len(DEVELOPMENT_SEEDS)
    folders = [run.simulated.folder(Path("out")).path for run in (*runs, *development())]
    assert len(set(folders)) == len(folders)
