"""A simulated swarm: N nodes on the real round, the real wire format and real models.

Virtual time, seeded durations, one thread per policy host and ordered delivery make the same seed
give the same numbers. Rounds run in lock-step: every node begins round r when all have ended r - 1.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from swarmnode.clock import Clock
from swarmnode.config.settings import Settings
from swarmnode.evaluation import Examiner
from swarmnode.network.memory import MemoryNetwork
from swarmnode.node import Node, Surroundings, build_node
from swarmnode.observe.samples import sample
from swarmnode.policies import Making, base_pairs, policy_order
from swarmnode.policy.client import Durations, RemotePolicy
from swarmnode.publish import Identity
from swarmnode.rewards.channels import rewards
from swarmnode.rewards.client import Scorer
from swarmnode.round import run_round
from swarmnode.sim.machine import Machine
from swarmnode.types import Evaluation, RoundReport, Scored, TaskRewards
from swarmproto import public_key_of


@dataclass(frozen=True, slots=True)
class SimulatedSwarm:
    """A swarm whose nodes have joined."""

    settings: Settings
    clock: Clock
    examiner: Examiner
    nodes: Sequence[Node]
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
        evaluations: list[Evaluation] = await asyncio.gather(
            *(self.examiner.examine(node.policy, self.clock, lambda: 1.0) for node in self.nodes)
        )
        return [
            node.examined(report, evaluation)
            for node, report, evaluation in zip(self.nodes, reports, evaluations, strict=True)
        ]

    def _start_report(self, node: Node) -> RoundReport:
        nothing = TaskRewards({})
        return RoundReport(node.parts.number, 0, self.clock.now(), nothing, nothing)


@asynccontextmanager
async def simulated_swarm(
    settings: Settings, machine: Machine, clock: Clock, cache: Path | None
) -> AsyncIterator[SimulatedSwarm]:
    """Make the policies, build the nodes and let them join; leave when the context ends.

    Raises ChildError when a child is lost, UnknownFilter for the filter's name.
    """
    levels = dict(settings.tasks.pairs)
    scorer = machine.scorer
    nodes = _build_nodes(settings, machine, clock, await _fingerprints(scorer, levels))
    figures, examiner = await asyncio.gather(
        _create_policies(settings, scorer, nodes, cache),
        Examiner.prepare(scorer, levels, settings.evaluation.questions_per_task),
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            beside = [task for node in nodes for task in await node.join(tasks)]
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


def _build_nodes(
    settings: Settings,
    machine: Machine,
    clock: Clock,
    fingerprints: Mapping[tuple[str, str], bytes],
) -> Sequence[Node]:
    simulation = settings.simulation
    network = MemoryNetwork(
        clock,
        latency_seconds=simulation.latency_seconds,
        loss=simulation.loss,
        seed=simulation.seed,
    )
    nodes: list[Node] = []
    for number in range(simulation.nodes):
        identity = simulated_identity(simulation.seed, number)
        durations = random.Random(f"{simulation.seed}/durations/{number}")
        spread = partial(_seconds, durations, simulation.duration_spread)
        policy = RemotePolicy(
            machine.hosts[number % len(machine.hosts)],
            number,
            publisher=identity.public_key,
            clock=clock,
            durations=Durations(
                generate=partial(spread, simulation.generate_seconds),
                train=partial(spread, simulation.train_seconds),
            ),
            rewards=partial(rewards, partial_credit=settings.rewards.partial_credit),
        )
        around = Surroundings(
            number=number,
            identity=identity,
            swarm_id=machine.swarm_id,
            levels=dict(settings.tasks.pairs),
            fingerprints=fingerprints,
            scorer=machine.scorer,
            transport=network.endpoint(f"memory/{number}"),
            clock=clock,
            score_seconds=partial(spread, simulation.score_seconds),
            seed=simulation.seed,
        )
        nodes.append(build_node(_of_node(settings, number), policy, around))
    return nodes


def _of_node(settings: Settings, number: int) -> Settings:
    """The settings of one node, which differ in the model."""
    models = settings.simulation.models
    policy = settings.policy.model_copy(update={"model": models[number % len(models)]})
    return settings.model_copy(update={"policy": policy})


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
            model=_of_node(settings, number).policy.model,
            skills=skills_of(settings, number),
            seed=seed,
            sampling_seed=seed,
            shared_seed=simulation.seed,
            stream=number + 1,
            cache=cache,
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


def simulated_identity(seed: int, number: int) -> Identity:
    """Keys that follow from the seed: fit for a simulation and for nothing else."""
    private = hashlib.sha256(f"swarmnode simulation key {seed}/{number}".encode()).digest()
    return Identity(private, public_key_of(private), private[:16])


def _seconds(generator: random.Random, spread: float, average: float) -> float:
    return average * generator.uniform(1.0 - spread, 1.0 + spread)
