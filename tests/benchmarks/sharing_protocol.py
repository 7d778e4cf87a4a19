"""The protocol of the study "Does sharing help?": what is run, under which seeds, judged by what.

Fixed before the results were made; docs/results/sharing.md tells it in words. An arm is a list of
settings over the defaults, which are those of `make demo`. Everything that an arm doesn't name is
the same in all arms of a seed: weights, warm start, skills, questions, held-out questions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from swarmnode.config.settings import Settings, load_settings
from swarmnode.sim.study import Arm
from tests.benchmarks.sharing_statistics import Stage

RATES = (1e-4, 2e-4, 4e-4)
LOWER_RATE = 5e-5
EDGE_ARMS = ("8/0", "4/4 replay", "4/4 both")
"""Arms that were best at the lowest of the rates, and for which a lower one was tried too."""
DEVELOPMENT_SEEDS = (0, 1, 2)
FRESH_SEEDS = tuple(range(100, 108))
MIX_SEEDS = FRESH_SEEDS[:4]
LONG_SEEDS = FRESH_SEEDS[:3]
ROUNDS = 200
LONG_ROUNDS = 400
REFERENCE_ARM = "8/0"
SHARING_ARM = "4/4 positive"
FROZEN_RATES = Path(__file__).with_name("sharing_rates.json")
"""The rate of each arm, chosen on the development seeds."""

LAST_SHARE = 0.1
"""The primary metric is held-out success, mean of the evaluations in this last part of the rounds:
per task, over nodes and evaluations, then over tasks with equal weights."""

LOOPHOLE_TASK = "propositional_logic"
LOOPHOLE_ARMS = (REFERENCE_ARM, SHARING_ARM)
LONG_ARMS = (REFERENCE_ARM, "8/0 positive", SHARING_ARM)


@dataclass(frozen=True, slots=True)
class StudyArm:
    """One way to train, by its name on the page."""

    name: str
    description: str
    assignments: tuple[str, ...]


def _mix(local: int, external: int) -> tuple[str, ...]:
    return (
        f"rounds.local_groups_per_round={local}",
        f"rounds.external_groups_per_round={external}",
    )


ARMS = (
    StudyArm(
        REFERENCE_ARM,
        "GRPO alone: 8 questions, 8 own groups",
        (*_mix(8, 0), "rounds.share=none"),
    ),
    StudyArm(
        "8/0 positive",
        "alone, own completions with a positive advantage only",
        (*_mix(8, 0), "rounds.share=none", "training.local_advantage=positive"),
    ),
    StudyArm(
        "8/0 dynamic",
        "alone, asks on, 4 questions at a time, until 7 own groups are live: as many as 4/4 trains",
        (
            *_mix(7, 0),
            "rounds.share=none",
            "rounds.dynamic_sampling=true",
            "rounds.questions_per_round=4",
        ),
    ),
    StudyArm(
        "4/4 replay",
        "alone, 4 fresh own groups and the successes of 4 of its last 12 live ones",
        (*_mix(4, 4), "selection.external_source=own_past"),
    ),
    StudyArm(
        "4/4 both",
        "sharing as in the paper: peers' completions count with both signs",
        (*_mix(4, 4), "training.external_advantage=both"),
    ),
    StudyArm(
        SHARING_ARM,
        "sharing as by default: peers' completions with a positive advantage only",
        (*_mix(4, 4), "training.external_advantage=positive"),
    ),
    StudyArm(
        "4/4 reference",
        "alone, 4 own groups and the reference answers of 4 new questions: the ceiling",
        (*_mix(4, 4), "selection.external_source=reference_answers"),
    ),
)
MIXES = (
    StudyArm("6/2", "sharing by default, 6 own groups and 2 of peers", _mix(6, 2)),
    StudyArm("2/6", "sharing by default, 2 own groups and 6 of peers", _mix(2, 6)),
)
BY_NAME = {arm.name: arm for arm in (*ARMS, *MIXES)}


@dataclass(frozen=True, slots=True)
class StudyRun:
    """One run of the study: what the page calls it, and what simulates it."""

    stage: Stage
    arm: StudyArm
    learning_rate: float
    seed: int
    rounds: int = ROUNDS
    more: tuple[str, ...] = ()

    @property
    def simulated(self) -> Arm:
        """The run for swarmnode.sim.study, named so that its folder tells what it is."""
        name = f"{self.stage} {self.arm.name} {self.learning_rate:g}".replace(" ", "_")
        return Arm(name, self.settings)

    @property
    def settings(self) -> Settings:
        """Defaults, then the protocol, then the arm; one host, since runs go side by side."""
        # The last tenth holds two evaluations, at 95 % of the rounds and at the end.
        step = self.rounds * 19 // (20 if self.stage == "development" else 200)
        return load_settings(
            assignments=[
                f"simulation.seed={self.seed}",
                f"simulation.rounds={self.rounds}",
                f"evaluation.every_rounds={step}",
                "simulation.hosts=1",
                f"training.learning_rate={self.learning_rate}",
                *self.arm.assignments,
                *self.more,
            ]
        )


def frozen_rates() -> Mapping[str, float]:
    """The rate of each arm. Raises OSError where development has not been run."""
    rates: dict[str, float] = json.loads(FROZEN_RATES.read_text("utf-8"))
    return rates


def development() -> Iterator[StudyRun]:
    """Every arm at every of its rates under the development seeds."""
    for seed, arm, rate in product(DEVELOPMENT_SEEDS, ARMS, RATES):
        yield StudyRun("development", arm, rate, seed)
    for seed, name in product(DEVELOPMENT_SEEDS, EDGE_ARMS):
        yield StudyRun("development", BY_NAME[name], LOWER_RATE, seed)


def rates_of(arm: str) -> Sequence[float]:
    """The rates that an arm is tried at."""
    return (LOWER_RATE, *RATES) if arm in EDGE_ARMS else RATES


def main_part(rates: Mapping[str, float]) -> Iterator[StudyRun]:
    """Every arm at its frozen rate under fresh seeds, then the mixes, the loophole, the long runs.

    The mixes take the rate of the sharing arm.
    """
    for seed, arm in product(FRESH_SEEDS, ARMS):
        yield StudyRun("main", arm, rates[arm.name], seed)
    for seed, arm in product(MIX_SEEDS, MIXES):
        yield StudyRun("mixes", arm, rates[SHARING_ARM], seed)
    for seed, name in product(LONG_SEEDS, LOOPHOLE_ARMS):
        yield StudyRun("loophole", BY_NAME[name], rates[name], seed, more=(_with_loophole(),))
    for seed, name in product(LONG_SEEDS, LONG_ARMS):
        yield StudyRun("long", BY_NAME[name], rates[name], seed, rounds=LONG_ROUNDS)


def _with_loophole() -> str:
    """The default tasks, and the one whose verifier pays any entailed formula."""
    names: Sequence[str] = [*load_settings().tasks.names, f"{LOOPHOLE_TASK}:paper"]
    return f"tasks.names={json.dumps(names)}"
