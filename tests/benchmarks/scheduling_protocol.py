"""The protocol of the study "Which questions next?": what is run, with which seeds, judged how.

Fixed before the results were made; docs/results/scheduling.md tells it in words. An arm is a list
of settings over the defaults, which are those of `swarmnode simulate`. Everything that an arm
doesn't name is the same in all arms of a seed: weights, warm start, skills, keys, held-out
questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Literal

from swarmnode.config.settings import Settings, load_settings
from swarmnode.config.tasks import SHORT_TASKS
from swarmnode.sim.study import Arm
from tests.benchmarks.study_arms import StudyArm

Stage = Literal["development", "main", "second", "alone", "try"]

TASKS = (*SHORT_TASKS, "arc_1d", "bf", "propositional_logic")
"""The nine of the swarm sampling paper, at the level easy."""

ROUNDS = 400
DEVELOPMENT_ROUNDS = 200
DEVELOPMENT_SEEDS = (0,)
FRESH_SEEDS = tuple(range(300, 308))
"""Of the arms of PRIMARY; all others have the first SECONDARY_SEEDS of them."""
SECONDARY_SEEDS = 4

LAST_SHARE = 0.1
"""The primary metric is held-out success, mean of the two evaluations in this last part of the
rounds: per task, over nodes and evaluations, then over tasks with equal weights."""

OPTIONS = Path(__file__).with_name("scheduling_options.json")
"""The option of each arm, chosen on the development seeds."""

REFERENCE = "uniform"
PRIMARY = (("hds", REFERENCE), ("sec", REFERENCE), ("hds", "sec"))
"""The first less the second; the three are one family for Holm."""
SECONDARY = (
    ("uniform steered", "uniform"),
    ("sec steered", "sec"),
    ("hds steered", "hds"),
    ("hds", "hds frozen"),
    ("hds", "reward softmax"),
    ("hds", "random"),
    ("sec", "random"),
)
ALONE_PAIRS = (("hds alone", "uniform alone"), ("sec alone", "uniform alone"))

_HDS = ("kind=hds", "hds.batch=16")
"""A node's default, fixed; twice as many would watch for 64 rounds before they decide anything."""
_STEERED = "steer_external=true"

ARMS = (
    StudyArm(REFERENCE, "every task equally likely", ("kind=uniform",)),
    StudyArm("random", "other shares each round", ("kind=random",)),
    StudyArm(
        "sec",
        "a bandit that seeks large advantages",
        ("kind=sec",),
        ("sec_temperature=0.2", "sec_temperature=0.4", "sec_temperature=1"),
    ),
    StudyArm(
        "dump",
        "the same with a bonus for what was seldom asked",
        ("kind=dump",),
        ("dump_temperature=0.1", "dump_temperature=0.3", "dump_temperature=1"),
    ),
    StudyArm(
        "odm",
        "EXP3 on large advantages",
        ("kind=odm",),
        ("odm_form=paper", "odm_form=paper;odm_smoothing=0.9", "odm_form=code"),
    ),
    StudyArm(
        "doge",
        "agreeing gradients, by mirror descent",
        ("kind=doge",),
        ("doge_step_size=0.0125", "doge_step_size=0.05", "doge_step_size=0.2"),
    ),
    StudyArm(
        "ac-odm",
        "agreeing gradients, by a deterministic actor-critic",
        ("kind=ac-odm",),
        (
            "ac_odm.learning_rate=0.0001",
            "ac_odm.learning_rate=0.0003",
            "ac_odm.learning_rate=0.001",
        ),
    ),
    StudyArm(
        "reward softmax",
        "the rewards of hds, without an agent",
        ("kind=reward-softmax",),
        ("softmax_temperature=0.5", "softmax_temperature=1", "softmax_temperature=2"),
    ),
    StudyArm(
        "hds",
        "the corrected variant",
        _HDS,
        ("hds.learning_rate=0.0003", "hds.learning_rate=0.001", "hds.learning_rate=0.003"),
    ),
)
SECOND = (
    StudyArm(
        "hds frozen",
        "the agent of hds, which never learns",
        (*_HDS, "hds.updates_per_step=0"),
        like="hds",
    ),
    StudyArm("uniform steered", "uniform, peers' groups by the same shares", (_STEERED,)),
    StudyArm(
        "sec steered", "sec, peers' groups by the same shares", ("kind=sec", _STEERED), like="sec"
    ),
    StudyArm("hds steered", "hds, peers' groups by the same shares", (*_HDS, _STEERED), like="hds"),
)
ALONE = (
    StudyArm("uniform alone", "uniform, four own groups and none of peers", ("kind=uniform",)),
    StudyArm("sec alone", "sec, likewise", ("kind=sec",), like="sec"),
    StudyArm("hds alone", "hds, likewise", _HDS, like="hds"),
)
"""Whether it is peers' groups that make the own questions matter little. Designed after the first
seeds of the main part: exploratory."""
MORE: Mapping[Stage, tuple[str, ...]] = {"alone": ("rounds.external_groups_per_round=0",)}
"""Settings of all arms of a stage."""
BY_STAGE: Mapping[Stage, Sequence[StudyArm]] = {"main": ARMS, "second": SECOND, "alone": ALONE}


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One run of the study: what the page calls it, and what simulates it."""

    stage: Stage
    arm: StudyArm
    seed: int
    option: str = ""
    """Assignments of the arm's option, joined by ";"."""
    rounds: int = ROUNDS
    more: tuple[str, ...] = ()

    @property
    def simulated(self) -> Arm:
        """The run for swarmnode.sim.study, named so that its folder tells what it is."""
        text = " ".join(part for part in (self.stage, self.arm.name, self.option) if part)
        name = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in text)
        return Arm(name, self.settings)

    @property
    def settings(self) -> Settings:
        """Defaults, then the protocol, then the arm; one host, since runs go side by side."""
        own = (*self.arm.assignments, *filter(None, self.option.split(";")))
        # The last tenth holds two evaluations, at 95 % of the rounds and at the end.
        return load_settings(
            assignments=[
                f"tasks.names={json.dumps(TASKS)}",
                f"simulation.seed={self.seed}",
                f"simulation.rounds={self.rounds}",
                f"evaluation.every_rounds={max(1, self.rounds * 19 // 20)}",
                "simulation.hosts=1",
                *(f"scheduling.{each}" for each in own),
                *self.more,
            ]
        )


def frozen_options() -> Mapping[str, str]:
    """By arm. Raises OSError where development was not run."""
    options: dict[str, str] = json.loads(OPTIONS.read_text("utf-8"))
    return options


def development() -> Iterator[StudyRun]:
    """Every arm with each of its options under the development seeds."""
    for seed, arm in product(DEVELOPMENT_SEEDS, ARMS):
        for option in arm.options:
            yield StudyRun("development", arm, seed, option, DEVELOPMENT_ROUNDS)


def seeds_of(arm: StudyArm) -> Sequence[int]:
    """The fresh seeds of an arm."""
    primary = arm.name in {name for pair in PRIMARY for name in pair}
    return FRESH_SEEDS if primary else FRESH_SEEDS[:SECONDARY_SEEDS]


def runs_of(stage: Stage, options: Mapping[str, str]) -> Iterator[StudyRun]:
    """Every run of a stage after development: arms with most seeds first."""
    arms = sorted(BY_STAGE[stage], key=lambda arm: -len(seeds_of(arm)))
    for count, some in groupby(arms, key=lambda arm: len(seeds_of(arm))):
        for seed, arm in product(FRESH_SEEDS[:count], tuple(some)):
            option = options.get(arm.like or arm.name, "")
            yield StudyRun(stage, arm, seed, option, more=MORE.get(stage, ()))


def trial_runs(rounds: int) -> Iterator[StudyRun]:
    """A few rounds of every arm with little of everything else, to see that they run."""
    little = (
        "simulation.nodes=2",
        "policy.warm_start.base_steps=20",
        "policy.warm_start.base_pairs_per_task=20",
        "policy.warm_start.steps=5",
        "policy.warm_start.pairs_per_task=20",
        "evaluation.questions_per_task=2",
        "scheduling.hds.batch=1",
        "scheduling.ac_odm.batch=1",
    )
    for arm in (*ARMS, *SECOND):
        option = arm.options[1] if arm.options else ""
        yield StudyRun("try", arm, DEVELOPMENT_SEEDS[0], option, rounds, little)
