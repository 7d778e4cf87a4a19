"""A real swarm of one whose verifier pays for the wrong thing: guard-rails see what comes of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from swarmnode.config.settings import load_settings
from swarmnode.sim import building
from swarmnode.sim.study import Arm, arms, run_study
from swarmnode.types import RoundReport, Scored

SETTINGS = [
    "simulation.nodes=1",
    "simulation.hosts=1",
    "simulation.rounds=26",
    "simulation.seed=7",
    'tasks.names=["basic_arithmetic", "base_conversion"]',
    "policy.warm_start.base_steps=100",
    "policy.warm_start.base_pairs_per_task=100",
    "policy.warm_start.steps=0",
    "evaluation.questions_per_task=1",
    "evaluation.every_rounds=1000",
    "rounds.local_groups_per_round=4",
    "rounds.external_groups_per_round=0",
    "training.learning_rate=2e-3",
    "training.warmup_steps=15",
    "guard_rails.first_rounds=8",
]


class Silent:
    """Progress that nobody looks at."""

    def ready(self, arm: Arm, figures: Mapping[str, float]) -> None: ...

    def round_ended(
        self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
    ) -> None: ...

    def already_there(self, arm: Arm) -> None: ...


def shorter(scored: Scored, *, partial_credit: bool) -> tuple[float, ...]:
    """1 for answers that are shorter than the middle one of their group, whatever they say."""
    lengths = [completion.token_count for completion in scored.group.completions]
    return tuple(float(length < sorted(lengths)[len(lengths) // 2]) for length in lengths)


def test_a_policy_that_is_paid_for_brevity_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "rewards", shorter)
    runs, whole = run_study(
        arms({"4/0": load_settings(assignments=SETTINGS)}, 1),
        tmp_path,
        environment=os.environ,
        cache=tmp_path / "cache",
        progress=Silent(),
    )
    assert whole
    alarms = [
        {name for name in report.metrics if name.startswith("guard/alarm/")}
        for report in runs[0].reports
    ]
    assert not any(alarms[:9])
    assert {"guard/alarm/length", "guard/alarm/distinct"} <= set().union(*alarms[-3:])
    last = runs[0].reports[-1].metrics
    assert last["guard/recent/length"] < 0.5 * last["guard/start/length"]
