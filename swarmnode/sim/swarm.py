"""A simulated swarm: N nodes on the real round, the real wire format and real models.

Virtual time, seeded durations, one thread per policy host and ordered delivery make the same seed
give the same numbers. Rounds run in lock-step: every node begins round r when all have ended r - 1.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from swarmnode.clock import Clock
from swarmnode.config.settings import Settings
from swarmnode.evaluation import Examiner
from swarmnode.node import Node
from swarmnode.observe.samples import sample
from swarmnode.policies import Making, base_pairs, policy_order
from swarmnode.rewards.client import Scorer
from swarmnode.round import run_round
from swarmnode.sim.attacks.measures import Heard
from swarmnode.sim.building import Placing, build_nodes, settings_of, unchanged
from swarmnode.sim.machine import Machine
from swarmnode.types import Evaluation, RoundReport, Scored, TaskRewards


@dataclass(frozen=True, slots=True)
class SimulatedSwarm:
    """A swarm whose nodes have joined, and what attackers there are."""

    settings: Settings
    clock: Clock
    examiner: Examiner
    nodes: Sequence[Node]
    """The honest ones; attackers report nothing."""
    figures: Mapping[str, float]
    """Parameters and memory of the first policy, and seconds that its warm start took."""
    answers: dict[str, str] = field(default_factory=dict)
    """How the first node answered in the last round (swarmnode.observe.samples)."""

    async def rounds(self) -> AsyncIterator[Sequence[RoundReport]]:
        """The reports of all nodes, round by round; round 0 is the evaluation at the start."""
        last = self.settings.simulation.rounds
        every = self.settings.evaluation.every_rounds
        yield await self._examined([self._start_report(node) for node in self.nodes])
        for number in range(1, last + 1):
            reports = await asyncio.gather(*(self._round(node, number) for node in self.nodes))
            reports = [
                node.with_traffic(report) for report, node in zip(reports, self.nodes, strict=True)
            ]
            if number % every == 0 or number == last:
                reports = list(await self._examined(reports))
            yield reports

    async def _round(self, node: Node, number: int) -> RoundReport:
        def seen(local: Sequence[Scored]) -> None:
            if node is self.nodes[0]:
                self.answers.clear()
                self.answers.update(sample(local))

        return await run_round(node.parts, number, seen)

    async def _examined(self, reports: Sequence[RoundReport]) -> Sequence[RoundReport]:
        policies = [Heard(node.policy) for node in self.nodes]
        evaluations: list[Evaluation] = await asyncio.gather(
            *(self.examiner.examine(policy, self.clock, lambda: 1.0) for policy in policies)
        )
        told = [
            node.examined(report, evaluation)
            for node, report, evaluation in zip(self.nodes, reports, evaluations, strict=True)
        ]
        if self.settings.simulation.attack == "none":
            return told
        return [
            replace(report, metrics={**report.metrics, **policy.figures})
            for report, policy in zip(told, policies, strict=True)
        ]

    def _start_report(self, node: Node) -> RoundReport:
        nothing = TaskRewards({})
        return RoundReport(node.parts.number, 0, self.clock.now(), nothing, nothing)


@asynccontextmanager
async def simulated_swarm(
    settings: Settings,
    machine: Machine,
    clock: Clock,
    cache: Path | None,
    placing: Placing = unchanged,
) -> AsyncIterator[SimulatedSwarm]:
    """Make the policies, build the nodes and let them join; leave when the context ends.

    Raises ChildError when a child is lost, UnknownFilter for the filter's name.
    """
    levels = dict(settings.tasks.pairs)
    scorer = machine.scorer
    fingerprints = await _fingerprints(scorer, levels)
    nodes, attackers = build_nodes(settings, machine, clock, fingerprints, placing)
    figures, examiner = await asyncio.gather(
        _create_policies(settings, scorer, nodes, cache),
        Examiner.prepare(scorer, levels, settings.evaluation.questions_per_task),
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            joining = [*nodes, *(attacker.node for attacker in attackers)]
            beside = [task for node in joining for task in await node.join(tasks)]
            beside += [tasks.create_task(attacker.run()) for attacker in attackers]
            yield SimulatedSwarm(settings, clock, examiner, nodes, figures)
            for task in beside:
                task.cancel()
    except BaseExceptionGroup as group:
        # What one part raised is what the caller knows how to handle, not the group around it.
        raise group.exceptions[0] from None


async def _fingerprints(
    scorer: Scorer, levels: Mapping[str, str]
) -> Mapping[tuple[str, str], bytes]:
    pairs = list(levels.items())
    return dict(zip(pairs, await scorer.fingerprints(pairs), strict=True))


async def _create_policies(
    settings: Settings, scorer: Scorer, nodes: Sequence[Node], cache: Path | None
) -> Mapping[str, float]:
    """Let the hosts make the policies, each as soon as its questions are there."""
    simulation = settings.simulation
    random_start = "tiny" in simulation.models
    base = await base_pairs(settings, scorer, simulation.seed) if random_start else []

    async def create(number: int, node: Node) -> Mapping[str, float]:
        seed = simulation.seed * 1_000_003 + number
        making = Making(
            model=settings_of(settings, number).policy.model,
            skills=skills_of(settings, number),
            seed=seed,
            sampling_seed=seed,
            shared_seed=simulation.seed,
            stream=number + 1,
            cache=cache,
            total_rounds=simulation.rounds,
        )
        return await node.policy.create(await policy_order(settings, scorer, making, base))

    return (await asyncio.gather(*(create(n, node) for n, node in enumerate(nodes))))[0]


def skills_of(settings: Settings, number: int) -> Sequence[str]:
    """The tasks that a node's own warm start teaches.

    Without the setting `simulation.skills` each node gets two neighbours of the enabled tasks,
    whose order is shuffled by the seed, so that specialists differ between seeds.
    """
    tasks = [task for task, _ in settings.tasks.pairs]
    if settings.simulation.skills:
        skill = settings.simulation.skills[number % len(settings.simulation.skills)]
        return tasks if skill == "all" else skill.split("+")
    random.Random(f"{settings.simulation.seed}/skills").shuffle(tasks)
    return sorted({tasks[number % len(tasks)], tasks[(number + 1) % len(tasks)]})
