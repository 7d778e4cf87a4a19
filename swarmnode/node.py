"""The wiring of one node: from settings and collaborators to the parts of its rounds. No logic."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from swarmnode.asking import QuestionStreams
from swarmnode.clock import Clock
from swarmnode.collect import Collector
from swarmnode.config.settings import Settings
from swarmnode.network.shelf import Shelf
from swarmnode.network.transport import Transport
from swarmnode.policy.client import RemotePolicy
from swarmnode.publish import Identity, Publisher
from swarmnode.rewards.client import Scorer
from swarmnode.round import Parts
from swarmnode.scheduling.uniform import Uniform
from swarmnode.scored import NodeRewards
from swarmnode.selection.admission import AdmissionRules
from swarmnode.selection.filters import draw_rule, load_filter
from swarmnode.selection.pool import Pool

SHELF_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a node is put into."""

    number: int
    identity: Identity
    swarm_id: bytes
    levels: Mapping[str, str]
    """Level by enabled task."""
    fingerprints: Mapping[tuple[str, str], bytes]
    scorer: Scorer
    transport: Transport
    clock: Clock
    score_seconds: Callable[[], float]
    """Declared duration of a call to the scorer."""
    seed: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is ready for its rounds."""

    parts: Parts
    policy: RemotePolicy
    publisher: Publisher
    collector: Collector
    rewards: NodeRewards
    shelf: Shelf
    transport: Transport

    async def join(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Start serving, publishing and collecting; the caller cancels what is returned."""
        await self.transport.start(self.shelf.answer)
        name = self.parts.number
        return [
            tasks.create_task(self.publisher.run(), name=f"publisher-{name}"),
            tasks.create_task(self.collector.run(), name=f"collector-{name}"),
        ]


def build_node(settings: Settings, policy: RemotePolicy, around: Surroundings) -> Node:
    """Put a node together. Raises UnknownFilter."""
    rng = random.Random(f"{around.seed}/node/{around.number}")
    selection = settings.selection
    chosen_by = load_filter(selection.filter, draw_rule(selection.draw))
    pool = Pool(capacity=selection.pool_groups, age_seconds=selection.pool_age_seconds)
    rewards = NodeRewards(around.scorer, around.clock, around.score_seconds)
    shelf = Shelf(around.clock, quota_bytes=SHELF_BYTES)
    publisher = Publisher(
        identity=around.identity,
        swarm_id=around.swarm_id,
        transport=around.transport,
        shelf=shelf,
        clock=around.clock,
        fingerprints=around.fingerprints,
        announcement_seconds=selection.announcement_seconds,
    )
    collector = Collector(
        own_key=around.identity.public_key,
        rules=AdmissionRules(
            swarm_id=around.swarm_id,
            fingerprints=around.fingerprints,
            completion_tokens=settings.policy.max_new_tokens,
            clock_skew_seconds=selection.clock_skew_seconds,
            wants_dead=chosen_by.wants_dead,
        ),
        transport=around.transport,
        rewards=rewards,
        pool=pool,
        clock=around.clock,
        rng=random.Random(f"{around.seed}/collector/{around.number}"),
        every_seconds=selection.collect_every_seconds,
        discover_count=selection.discover_count,
        groups_per_look=selection.fetch_groups_per_look,
    )
    parts = Parts(
        number=around.number,
        rounds=settings.rounds,
        scheduler=Uniform(list(around.levels)),
        questions=QuestionStreams(
            scorer=around.scorer,
            public_key=around.identity.public_key,
            levels=around.levels,
            clock=around.clock,
            seconds=around.score_seconds,
            rng=random.Random(f"{around.seed}/questions/{around.number}"),
        ),
        policy=policy,
        rewards=rewards,
        outgoing=publisher,
        pool=pool,
        chosen_by=chosen_by,
        clock=around.clock,
        rng=rng,
    )
    return Node(parts, policy, publisher, collector, rewards, shelf, around.transport)
