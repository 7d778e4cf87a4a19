"""The protocol of the attack lab's study: what is run, under which seeds, judged by what.

Fixed before the results were made; docs/results/attacks.md tells it in words. Everything that an
arm doesn't name is the same in all arms of a seed: weights, warm start, skills, keys and questions
of honest nodes, held-out questions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

from swarmnode.config.settings import load_settings
from swarmnode.config.simulation import AttackName
from swarmnode.sim.attacks.forging import LOOPHOLE_TASK
from swarmnode.sim.building import Placing, unchanged
from swarmnode.sim.study import Arm
from tests.benchmarks.attacks_victims import by_keys_alone, for_ever, only_the_dht, trusting

SEEDS = (300, 301, 302)
NODES = 4
ROUNDS = 100
EVERY_ROUNDS = 10
"""Between evaluations, each of 40 questions a task; the end is the mean of the last two."""
TASKS = ("basic_arithmetic", "binary_matrix", "decimal_arithmetic")
FEW = 2
"""Attackers beside the honest nodes."""
KEYS = (1, 5, 20, 50)
"""Of the attackers behind one prefix."""

COMMON = (
    f"simulation.nodes={NODES}",
    f"simulation.rounds={ROUNDS}",
    f"evaluation.every_rounds={EVERY_ROUNDS}",
    "simulation.hosts=1",
    # Room for tags and what stands before them, which models that reason have.
    "policy.max_new_tokens=40",
    # Enough for attacks to be seen within so few rounds, and for honest nodes to learn.
    "training.learning_rate=0.0005",
    "policy.warm_start.base_steps=600",
)

Defence = Literal["bare", "default", "gated"]
DEFENCES: dict[Defence, tuple[str, ...]] = {
    "bare": (
        "selection.external_token_share=1",
        "selection.peer_share=1",
        "selection.prefix_share=1",
        "selection.fallback.enabled=false",
        "selection.log_prob_gate.action=off",
    ),
    "default": (),
    "gated": ("selection.log_prob_gate.action=enforce",),
}
"""What bounds the training on peers' groups: nothing; the defaults; these and the log-prob gate."""


@dataclass(frozen=True, slots=True)
class LabArm:
    """One swarm: an attack, or none, and what stands against it."""

    attack: AttackName
    attackers: int
    defence: str
    """By its name on the page."""
    assignments: tuple[str, ...] = ()
    placing: Placing = unchanged
    beside: str = "default"
    """The defence of the arm without attackers that it is compared with."""
    tasks: tuple[str, ...] = TASKS

    @property
    def name(self) -> str:
        """Of its rows and of its folder."""
        return f"{self.attack}_{self.attackers}_{self.defence.replace(' ', '-')}"


def nobody(
    defence: str, assignments: tuple[str, ...] = (), tasks: tuple[str, ...] = TASKS
) -> LabArm:
    """The same swarm without attackers."""
    return LabArm("free-riding", 0, defence, assignments, beside=defence, tasks=tasks)


def _bounded(attack: AttackName, attackers: int, *defences: Defence) -> list[LabArm]:
    return [
        LabArm(attack, attackers, defence, DEFENCES[defence], beside=defence)
        for defence in defences
    ]


def _flood(keys: int) -> list[LabArm]:
    bare = (*AGAINST_KEYS, *DEFENCES["bare"])
    return [
        LabArm("sybil", keys, "by keys", bare, by_keys_alone, beside="bare"),
        LabArm("sybil", keys, "default", AGAINST_KEYS),
    ]


AGAINST_KEYS = ("simulation.nodes=5", "simulation.rounds=50")
"""Each node has four honest peers, and half of the rounds are enough to see who gets what."""
GAMEABLE = (*TASKS, f"{LOOPHOLE_TASK}:paper")
STRICT = (*TASKS, f"{LOOPHOLE_TASK}:easy")
ROOMY = "policy.max_new_tokens=128"
TOP_REWARD = "selection.filter=top-reward"

ARMS: tuple[LabArm, ...] = (
    *(nobody(name, assignments) for name, assignments in DEFENCES.items()),
    *_bounded("out-of-context", FEW, "bare", "default", "gated"),
    *_bounded("false-steps", FEW, "bare", "default", "gated"),
    LabArm("long-answers", FEW, "bare", (*DEFENCES["bare"], ROOMY), beside="bare"),
    *_bounded("long-answers", FEW, "default"),
    nobody("gameable", tasks=GAMEABLE),
    nobody("strict", tasks=STRICT),
    LabArm("loophole", FEW, "gameable", beside="gameable", tasks=GAMEABLE),
    LabArm("loophole", FEW, "strict", beside="strict", tasks=STRICT),
    LabArm("false-truth", FEW, "trusting", placing=trusting),
    LabArm("false-truth", FEW, "default"),
    nobody("top-reward", (TOP_REWARD,)),
    LabArm("withheld-failures", FEW, "top-reward", (TOP_REWARD,), beside="top-reward"),
    LabArm("withheld-failures", FEW, "default"),
    LabArm("copying", FEW, "trusting", placing=trusting),
    LabArm("copying", FEW, "default"),
    *(arm for keys in KEYS for arm in _flood(keys)),
    LabArm("slow", FEW, "for ever", placing=for_ever),
    LabArm("slow", FEW, "default"),
    LabArm("eclipse", FEW, "dht", placing=only_the_dht),
    LabArm("eclipse", FEW, "default"),
)


@dataclass(frozen=True, slots=True)
class LabRun:
    """One arm under one seed."""

    arm: LabArm
    seed: int

    @property
    def simulated(self) -> Arm:
        """The run for swarmnode.sim.study, named so that its folder tells what it is."""
        arm = self.arm
        names = ", ".join(f'"{task}"' for task in arm.tasks)
        settings = load_settings(
            assignments=[
                *COMMON,
                f"tasks.names=[{names}]",
                f"simulation.seed={self.seed}",
                f"simulation.attack={arm.attack}",
                f"simulation.attackers={arm.attackers}",
                *arm.assignments,
            ]
        )
        return Arm(arm.name, settings, arm.placing)


def all_runs() -> Iterator[LabRun]:
    """Every arm under every seed."""
    for seed, arm in product(SEEDS, ARMS):
        yield LabRun(arm, seed)


def by_name(arms: Sequence[LabArm] = ARMS) -> dict[str, LabArm]:
    """The arms by their names, which are distinct."""
    named = {arm.name: arm for arm in arms}
    assert len(named) == len(arms)
    return named
