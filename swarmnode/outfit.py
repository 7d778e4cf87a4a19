"""What a daemon's node is made of: from the plan of a run to children, orders and surroundings.

Only builds; starts nothing and waits for nothing.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from swarmnode.clock import Clock
from swarmnode.conduct import Notices
from swarmnode.config.daemon import Daemon
from swarmnode.config.settings import Settings
from swarmnode.home import Home
from swarmnode.memories import Memories
from swarmnode.network.transport import Transport
from swarmnode.node import Surroundings
from swarmnode.policies import STREAMS_PER_SEED, Making, base_pairs, hosted, policy_order
from swarmnode.policy.client import REAL_TIME, RemotePolicy
from swarmnode.policy.needs import Needs
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import Child
from swarmnode.publish import Identity
from swarmnode.rewards.channels import rewards
from swarmnode.rewards.client import Scorer
from swarmnode.store.records import PublishedBundle
from swarmnode.store.sequence import SequenceNumbers
from swarmnode.store.store import Limits, Store
from swarmnode.swarm_files import SwarmFile
from swarmnode.trackers.following import Follower, LinesFollower, TrackerFollower
from swarmnode.trackers.lines import RoundLines
from swarmnode.trackers.run import Run, tracker_folder
from swarmnode.trackers.values import told_settings
from swarmproto import Bundle, bundle_id, public_key_of

SHARED_SEED = 0
"""All nodes that start with `tiny` share its base, so that they differ in their skills alone."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What `swarmnode run` was asked for; the home is made and locked."""

    settings: Settings
    home: Home
    identity: Identity
    swarm: SwarmFile
    """Its rules are also those of a node on its own, whose question streams follow from them."""
    solo: bool
    environment: Mapping[str, str]
    cache: Path
    """Where warm starts are kept."""
    rounds: int | None
    """End when so many rounds have been gone through in all; None: never."""
    seed: int | None = None
    """Random seed of a node on its own; None: the operating system draws."""

    def rng(self, purpose: str) -> random.Random:
        """What is drawn for a purpose, from the start on: the same again where there is a seed."""
        if self.seed is None:
            return random.SystemRandom()
        return random.Random(f"{self.seed}/{purpose}")


def seeded_identity(seed: int, instance: bytes) -> Identity:
    """Whose question streams a seed stands for. Anybody can have the key: it must sign nothing."""
    private = hashlib.sha256(f"swarmnode without a swarm, seed {seed}".encode()).digest()
    return Identity(private, public_key_of(private), instance)


def followers_of(plan: Plan) -> list[Follower]:
    """Who is given every round: the lines, and a tracker for each that was chosen."""
    metrics, folder = plan.settings.metrics, plan.home.metrics
    identity = hashlib.sha256(b"swarmnode run" + plan.identity.instance).hexdigest()[:16]
    model = re.sub(r"[^A-Za-z0-9_.-]", "-", plan.settings.policy.model.rstrip("/").split("/")[-1])
    name = metrics.run or f"{model}-{identity[:8]}"
    lines = RoundLines(folder / "rounds.jsonl", metrics.lines_mib << 20)
    followers: list[Follower] = [LinesFollower(lines)]
    for each in metrics.trackers:
        child = Child(
            "swarmnode.trackers.child", name=each, arguments=[each], environment=plan.environment
        )
        own = str(tracker_folder(folder, each))
        run = Run(metrics.project, name, identity, own, told_settings(plan.settings))
        followers.append(TrackerFollower(each, child, run))
    return followers


def remote_policy(plan: Plan, host: Child, clock: Clock) -> RemotePolicy:
    """The node's policy in the host; on a real clock its calls take what they take."""
    return RemotePolicy(
        host,
        0,
        publisher=plan.identity.public_key,
        clock=clock,
        durations=REAL_TIME,
        rewards=partial(rewards, partial_credit=plan.settings.rewards.partial_credit),
    )


def ordered_policy(plan: Plan, scorer: Scorer) -> Callable[[], Awaitable[PolicyOrder]]:
    """What the policy's host is told whenever it has to make it."""
    # Without a seed another one each time: a restarted node must not sample what it sampled before.
    seed = plan.rng("sampling").getrandbits(48)
    making = replace(
        making_of(plan.settings, plan.identity.public_key, seed, plan.cache),
        total_rounds=plan.rounds or 0,
        weights_home=plan.home.path if plan.settings.policy.mode == "split" else None,
    )
    return partial(order_of, plan.settings, making, scorer)


def making_of(settings: Settings, public_key: bytes, sampling_seed: int, cache: Path) -> Making:
    """Which policy the node with this key has at its start; without a key, one without skills.

    The start follows from settings and key alone, so that it can be made again.
    """
    stream = 1 + int.from_bytes(public_key[:4]) % (STREAMS_PER_SEED - 1)
    return Making(
        model=settings.policy.model,
        skills=skills_of(settings, public_key) if public_key else (),
        seed=stream,
        sampling_seed=sampling_seed,
        shared_seed=SHARED_SEED,
        stream=stream,
        cache=cache,
    )


async def order_of(settings: Settings, making: Making, scorer: Scorer) -> PolicyOrder:
    """The order for that policy, with the questions of its warm start."""
    base = await base_pairs(settings, scorer, SHARED_SEED) if making.model == "tiny" else []
    return await policy_order(settings, scorer, making, base)


async def preflight(settings: Settings, host: Child) -> Needs:
    """The memory that the settings' policy would need, asked of a host."""
    policy = hosted(host)
    order = PolicyOrder(
        policy=settings.policy.model_dump(),
        training=settings.training.model_dump(),
        channels=settings.rewards.channels.model_dump(),
        seed=0,
        sampling_seed=0,
        shared_seed=SHARED_SEED,
        base_pairs=(),
        skill_pairs=(),
        cache_folder=None,
        examples={},
        rounds=settings.rounds.model_dump(),
    )
    return await policy.preflight(order)


def skills_of(settings: Settings, public_key: bytes) -> Sequence[str]:
    """The tasks of the node's own warm start: as set, or two neighbours that follow from its key.

    A skill that is no task of this node is left out.
    """
    tasks = [task for task, _ in settings.tasks.pairs]
    if settings.policy.skills:
        return [task for task in settings.policy.skills if task in tasks]
    place = int.from_bytes(public_key[:8]) % len(tasks)
    return sorted({tasks[place], tasks[(place + 1) % len(tasks)]})


def limits_of(settings: Daemon) -> Limits:
    """How much the store keeps."""
    return Limits(
        rounds=settings.rounds_kept,
        bundle_bytes=settings.published_bytes,
        rollout_bytes=settings.rollout_bytes,
    )


def surroundings_of(
    plan: Plan,
    fingerprints: Mapping[tuple[str, str], bytes],
    scorer: Scorer,
    transport: Transport,
    clock: Clock,
    store: Store,
    memories: Memories,
    notices: Notices,
    last_round: int,
) -> Surroundings:
    """What the node is put into after a round of that number."""

    def published(announcement: bytes, bundle: Bundle) -> None:
        if not plan.solo:
            store.record_bundle(
                PublishedBundle(
                    created=clock.now(),
                    sequence=bundle.header.sequence,
                    bundle_id=bundle_id(bundle.header_bytes),
                    announcement=announcement,
                    header=bundle.header_bytes,
                    groups=tuple(bundle.group_bytes),
                )
            )

    return Surroundings(
        number=0,
        identity=plan.identity,
        swarm_id=plan.swarm.swarm_id,
        levels=dict(plan.settings.tasks.pairs),
        fingerprints=fingerprints,
        scorer=scorer,
        transport=transport,
        clock=clock,
        score_seconds=lambda: 0.0,
        seed=plan.rng(f"after round {last_round}").getrandbits(62),
        rules=plan.swarm.rules,
        reserve_indices=partial(
            store.reserve_indices, plan.identity.public_key, plan.swarm.swarm_id
        ),
        numbers=SequenceNumbers(partial(store.reserve_sequence, plan.identity.public_key)),
        standing=memories.standing,
        remembered=memories.remembered,
        quality=memories.quality,
        notices=notices,
        published=published,
        announcement_bytes_max=plan.swarm.announcement_bytes_max,
    )
