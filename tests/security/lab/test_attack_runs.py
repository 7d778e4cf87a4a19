"""Every attack in a small real swarm: real children, the real wire, all defences as by default."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import pytest

from swarmnode.config.settings import load_settings
from swarmnode.sim.building import Placing, unchanged
from swarmnode.sim.study import Arm, run_study
from swarmnode.types import RoundReport
from tests.benchmarks.attacks_victims import by_keys_alone, only_the_dht, trusting

SMALL = (
    "simulation.nodes=3",
    "simulation.attackers=2",
    "simulation.hosts=1",
    "simulation.rounds=2",
    "simulation.seed=11",
    'tasks.names=["basic_arithmetic"]',
    "rounds.local_groups_per_round=2",
    "rounds.external_groups_per_round=4",
    "rounds.completions_per_group=4",
    "policy.max_new_tokens=40",
    "policy.warm_start.base_steps=5",
    "policy.warm_start.base_pairs_per_task=20",
    "policy.warm_start.steps=5",
    "policy.warm_start.pairs_per_task=20",
    "evaluation.questions_per_task=2",
)
UNIFORM = "selection.filter=uniform"
"""Untrained nodes have no live groups; under this filter theirs are taken too."""
LONGER = "simulation.rounds=4"
"""What is copied was published a round before."""
LOGIC = 'tasks.names=["propositional_logic:{}"]'

FLOOD = ("simulation.attack=sybil", "simulation.attackers=12", UNIFORM, LONGER)

ARMS: Mapping[str, tuple[Sequence[str], Placing]] = {
    "nobody": (("simulation.attack=free-riding", "simulation.attackers=0", UNIFORM), unchanged),
    "free riding": (("simulation.attack=free-riding", UNIFORM), unchanged),
    "out of context": (("simulation.attack=out-of-context",), unchanged),
    "long": (("simulation.attack=long-answers",), unchanged),
    "truth": (("simulation.attack=false-truth",), unchanged),
    "truth, trusted": (("simulation.attack=false-truth",), trusting),
    "withheld": (("simulation.attack=withheld-failures",), unchanged),
    "withheld, top": (
        ("simulation.attack=withheld-failures", "selection.filter=top-reward"),
        unchanged,
    ),
    "copies": (("simulation.attack=copying", UNIFORM, LONGER), unchanged),
    "copies, trusted": (("simulation.attack=copying", UNIFORM, LONGER), trusting),
    "loophole": (("simulation.attack=loophole", LOGIC.format("paper")), unchanged),
    "loophole, strict": (("simulation.attack=loophole", LOGIC.format("easy")), unchanged),
    "slow": (("simulation.attack=slow", UNIFORM), unchanged),
    "eclipse": (("simulation.attack=eclipse", UNIFORM), unchanged),
    "eclipse, DHT": (("simulation.attack=eclipse", UNIFORM), only_the_dht),
    "sybil": (FLOOD, unchanged),
    "sybil, by keys": (FLOOD, by_keys_alone),
}

Runs = Mapping[str, Sequence[RoundReport]]


class Quiet:
    """Progress that says nothing."""

    def ready(self, arm: Arm, figures: Mapping[str, float]) -> None:
        pass

    def round_ended(
        self, arm: Arm, reports: Sequence[RoundReport], answers: Mapping[str, str]
    ) -> None:
        pass

    def already_there(self, arm: Arm) -> None:
        pass


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    out = tmp_path_factory.mktemp("attacks")
    study = [
        Arm(name, load_settings(assignments=[*SMALL, *more]), placing)
        for name, (more, placing) in ARMS.items()
    ]
    done, whole = run_study(
        study, out, environment=os.environ, cache=Path(out) / "cache", progress=Quiet()
    )
    assert whole
    return {run.variant: run.reports for run in done}


def mean(reports: Sequence[RoundReport], name: str) -> float:
    return fmean(report.metrics.get(name, 0.0) for report in reports if report.round > 0)


def of_honest(reports: Sequence[RoundReport]) -> float:
    return mean(reports, "mix/external_groups") - mean(reports, "attack/groups")


def dropped(reports: Sequence[RoundReport]) -> Counter[str]:
    total: Counter[str] = Counter()
    for report in reports:
        total.update(report.dropped)
    return total


def without_measures(reports: Sequence[RoundReport]) -> list[object]:
    return [(r.node, r.round, r.local, r.training_set, r.evaluation, r.sources) for r in reports]


def test_attackers_report_nothing(runs: Runs) -> None:
    for reports in runs.values():
        assert {report.node for report in reports} == {0, 1, 2}


def test_free_riders_change_no_number_of_honest_nodes(runs: Runs) -> None:
    assert without_measures(runs["free riding"]) == without_measures(runs["nobody"])
    assert mean(runs["free riding"], "attack/groups") == 0.0


@pytest.mark.parametrize("attack", ["out of context", "long"])
def test_right_answers_of_attackers_are_trained_on(runs: Runs, attack: str) -> None:
    assert mean(runs[attack], "attack/groups") > 0.5
    assert mean(runs[attack], "attack/tokens") > 0.1 * mean(runs[attack], "attack/set_tokens")


def test_a_false_truth_reaches_no_training_set(runs: Runs) -> None:
    assert mean(runs["truth"], "attack/groups") == 0.0
    assert dropped(runs["truth"])["question_differs"] > 0
    assert dropped(runs["truth"])["nothing_wanted"] > 0
    assert mean(runs["truth, trusted"], "attack/groups") > 0.5


def test_copies_reach_no_training_set(runs: Runs) -> None:
    assert mean(runs["copies"], "attack/groups") == 0.0
    assert dropped(runs["copies"])["question_differs"] > 0
    assert mean(runs["copies, trusted"], "attack/groups") > 0.1


def test_groups_without_failures_are_taken_by_nobody_who_wants_live_ones(runs: Runs) -> None:
    assert mean(runs["withheld"], "attack/groups") == 0.0
    assert dropped(runs["withheld"])["nothing_wanted"] > 0
    assert mean(runs["withheld, top"], "attack/groups") > 0.5


def test_a_loophole_is_paid_by_the_gameable_verifier_alone(runs: Runs) -> None:
    assert mean(runs["loophole"], "attack/groups") > 0.1
    assert mean(runs["loophole, strict"], "attack/groups") == 0.0


def test_an_eclipse_is_broken_by_asking_peers(runs: Runs) -> None:
    assert of_honest(runs["eclipse"]) > 0.0
    assert of_honest(runs["eclipse, DHT"]) == 0.0
    assert mean(runs["eclipse, DHT"], "attack/groups") > 0.5


def test_slow_senders_cost_rounds_no_time_and_hide_nobody_elses_groups(runs: Runs) -> None:
    ends = {name: max(report.clock_seconds for report in runs[name]) for name in runs}
    assert ends["slow"] - ends["nobody"] < 5.0
    assert of_honest(runs["slow"]) > 0.0


def test_many_keys_behind_one_prefix_get_less_than_machines_would(runs: Runs) -> None:
    theirs = {name: mean(runs[name], "attack/groups") for name in ("sybil", "sybil, by keys")}
    assert 0.0 < theirs["sybil"] < 0.8 * theirs["sybil, by keys"]
