"""From a node's settings to its policy in a host: warm-start questions, the order, the policy.

Questions come from the scorer's own streams, which no node asks in rounds. The base is the same for
all nodes with one shared seed; the skills are the node's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarmnode.clock import SystemClock
from swarmnode.config.settings import Settings
from swarmnode.policy.client import REAL_TIME, RemotePolicy
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import Host
from swarmnode.rewards.client import Scorer
from swarmnode.scheduling.kinds import WITHOUT_GRADIENTS

Pairs = list[tuple[str, str]]

STREAMS_PER_SEED = 10_000
"""Streams of warm-start questions that a shared seed has: the base is 0, nodes take the others."""


@dataclass(frozen=True, slots=True)
class Making:
    """Which policy is wanted."""

    model: str
    skills: Sequence[str]
    seed: int
    """Random seed of the specialist's training order."""
    sampling_seed: int
    shared_seed: int
    """Random seed of starting weights and base, the same for all that are to start alike."""
    stream: int
    """The node's own stream of warm-start questions, 1 to STREAMS_PER_SEED - 1."""
    cache: Path | None
    """Where warm starts are kept."""
    total_rounds: int | None = None
    """Rounds that are planned, 0 where nobody knows; None: it has none, and no scheduler."""
    weights_home: Path | None = None
    """The home of the node whose weights go from a trainer to generators; None: they don't."""


async def base_pairs(settings: Settings, scorer: Scorer, shared_seed: int) -> Pairs:
    """What every `tiny` with this shared seed learns first: all enabled tasks."""
    tasks = [task for task, _ in settings.tasks.pairs]
    count = settings.policy.warm_start.base_pairs_per_task
    return await _pairs(settings, scorer, tasks, shared_seed * STREAMS_PER_SEED, count)


async def policy_order(
    settings: Settings, scorer: Scorer, making: Making, base: Pairs
) -> PolicyOrder:
    """What a host needs to make the policy."""
    stream = making.shared_seed * STREAMS_PER_SEED + making.stream
    count = settings.policy.warm_start.pairs_per_task
    starts_random = making.model == "tiny"
    policy = settings.policy.model_copy(update={"model": making.model})
    return PolicyOrder(
        policy=policy.model_dump(),
        training=settings.training.model_dump(),
        channels=settings.rewards.channels.model_dump(),
        log_prob_gate=settings.selection.log_prob_gate.model_dump(),
        seed=making.seed,
        sampling_seed=making.sampling_seed,
        shared_seed=making.shared_seed,
        base_pairs=base if starts_random else [],
        skill_pairs=await _pairs(settings, scorer, making.skills, stream, count)
        if starts_random
        else [],
        cache_folder=None if making.cache is None else str(making.cache),
        examples=await _examples(settings, scorer, making.shared_seed, policy.shown_examples),
        rounds=settings.rounds.model_dump(),
        scheduling=_scheduling(settings, making.total_rounds),
        weights_home=None if making.weights_home is None else str(making.weights_home),
    )


def _scheduling(settings: Settings, total_rounds: int | None) -> dict[str, Any] | None:
    """What the host is told of a scheduler that it has to have."""
    if total_rounds is None or settings.scheduling.kind in WITHOUT_GRADIENTS:
        return None
    return {
        "settings": settings.scheduling.model_dump(),
        "tasks": [task for task, _ in settings.tasks.pairs],
        "total_rounds": total_rounds,
    }


async def _examples(
    settings: Settings, scorer: Scorer, shared_seed: int, count: int
) -> dict[str, Sequence[tuple[str, str]]]:
    """What a policy sees before each question: the same for all with one shared seed."""
    seed = shared_seed * STREAMS_PER_SEED
    return {
        task: await scorer.warm_start_pairs(task, level, seed, count) if count else []
        for task, level in settings.tasks.pairs
    }


async def _pairs(
    settings: Settings, scorer: Scorer, tasks: Sequence[str], seed: int, count: int
) -> Pairs:
    levels = dict(settings.tasks.pairs)
    pairs: Pairs = []
    for task in tasks:
        pairs += await scorer.warm_start_pairs(task, levels[task], seed, count)
    return pairs


def hosted(host: Host) -> RemotePolicy:
    """The one policy of a host that is of no node: to be looked at, asked, or tried out."""
    return RemotePolicy(
        host,
        0,
        publisher=b"",
        clock=SystemClock(),
        durations=REAL_TIME,
        rewards=lambda scored: scored.successes,
    )
