"""An attacking node: an ordinary node of which no policy is ever asked for anything.

It has a key, question streams, a publisher and a transport like any other, so that what it
publishes is sealed, announced and fetched as everything is. Its rounds are replaced by `run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarmnode.config.settings import Settings
from swarmnode.config.simulation import AttackName
from swarmnode.node import Node
from swarmnode.sim.attacks.forging import (
    FALSE_STEP,
    LOOPHOLE_TASK,
    answered,
    behind_right_answers,
    copied,
    false_truth,
    long_answers,
    marked,
    weak_answers,
    withheld_failures,
)
from swarmnode.types import Scored

COLLECTING: frozenset[AttackName] = frozenset({"copying", "free-riding"})
"""Attacks that take what others publish."""


class Attacker:
    """Publishes as often, and as many groups at a time, as an honest node does on average."""

    def __init__(self, node: Node, public_key: bytes, settings: Settings) -> None:
        simulation, rounds = settings.simulation, settings.rounds
        self.node = node
        """What it joins and leaves as."""
        self._public_key = public_key
        self._attack: AttackName = simulation.attack
        self._groups = rounds.questions
        self._completions = rounds.completions_per_group
        self._room = settings.policy.new_tokens
        self._weights = asked(simulation.attack, settings.tasks.pairs)
        self._every_seconds = simulation.generate_seconds + simulation.train_seconds

    async def run(self) -> None:
        """Attack until cancelled."""
        while True:
            self.node.publisher.put(await self._made())
            await self.node.parts.clock.sleep(self._every_seconds)

    async def _made(self) -> Sequence[Scored]:
        parts = self.node.parts
        if self._attack in COLLECTING:
            taken = parts.pool.fresh(parts.clock.now())
            parts.pool.take(taken)
            return copied(taken, self._public_key) if self._attack == "copying" else ()
        questions = await parts.questions.draw(self._weights, self._groups)
        honest = [answered(each, self._completions, self._public_key) for each in questions]
        return [forged(self._attack, scored, self._room) for scored in honest]


def forged(attack: AttackName, scored: Scored, room: int) -> Scored:
    """What becomes of a group that looks honest; completions have room for so many tokens."""
    match attack:
        case "out-of-context" | "sybil" | "eclipse":
            return marked(scored)
        case "false-steps":
            return behind_right_answers(scored, FALSE_STEP)
        case "long-answers":
            return long_answers(scored, room)
        case "loophole":
            return weak_answers(scored)
        case "false-truth":
            return false_truth(scored)
        case "withheld-failures":
            return withheld_failures(scored)
        case "none" | "slow" | "copying" | "free-riding":
            return scored


def asked(attack: AttackName, levels: Sequence[tuple[str, str]]) -> Mapping[str, float]:
    """What an attacker draws questions of: every task alike, or the one that can be gamed."""
    tasks = [LOOPHOLE_TASK] if attack == "loophole" else [task for task, _ in levels]
    return {task: 1.0 / len(tasks) for task in tasks}
