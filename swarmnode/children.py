"""The processes that compute for nodes: with which arguments and environment they start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from swarmnode.cluster.cluster import Cluster
from swarmnode.cluster.host import PlacedHost
from swarmnode.cluster.journal import Journal
from swarmnode.cluster.places import Wanted
from swarmnode.config.policy import PolicySettings
from swarmnode.config.settings import Settings
from swarmnode.process import Child
from swarmnode.progress import Step
from swarmnode.torchrun import TORCHRUN, place_of

POLICY_HOST = "swarmnode.worker"
STEP_SECONDS = 0.5
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def scoring_child(settings: Settings, swarm_id: bytes) -> Child:
    """The scorer process of a swarm."""
    return Child(
        "swarmnode.scoring",
        name="scorer",
        arguments=[
            swarm_id.hex(),
            str(settings.rewards.memory_mib),
            str(settings.rewards.completion_cpu_seconds),
            *(f"{task}:{level}" for task, level in settings.tasks.pairs),
        ],
        respawn=True,
    )


def policy_child(
    environment: Mapping[str, str], name: str, threads: int = 1, ranks: Sequence[str] = ()
) -> Child:
    """A policy host that computes with so many threads.

    ranks: which other processes train with it, as `trainer_words` says.
    """
    chosen = {**environment, **_computing(threads)}
    return Child(POLICY_HOST, name=name, arguments=ranks, environment=chosen)


def placed_policy(cluster: Cluster, name: str, threads: int = 1) -> PlacedHost:
    """The same on a machine of a cluster; made anew as it was where that machine is lost."""
    journal = Journal(Path(cluster.folder))
    return PlacedHost(cluster, Wanted(name, POLICY_HOST, _computing(threads), threads), journal)


def placed_generator(cluster: Cluster, name: str, threads: int, gpus: int) -> PlacedHost:
    """A generator for a node elsewhere; where it is lost, its owner has it placed anew."""
    wanted = Wanted(name, "swarmnode.placed_generator", _computing(threads), threads, gpus)
    return PlacedHost(cluster, wanted, journal=None)


@asynccontextmanager
async def steps_told(child: Child, told: Callable[[Step], object]) -> AsyncIterator[None]:
    """Tell every STEP_SECONDS how far a child is with what it was asked for, in the block."""

    async def tell() -> None:
        while True:
            if (step := child.step) is not None:
                told(step)
            await asyncio.sleep(STEP_SECONDS)

    telling = asyncio.create_task(tell(), name="steps")
    try:
        yield
    finally:
        telling.cancel()


def trainer_words(settings: PolicySettings, environment: Mapping[str, str]) -> Sequence[str]:
    """What a node's policy host is told of other ranks: torchrun's, or how many it starts."""
    if place_of(environment) is not None:
        return [TORCHRUN]
    return [str(settings.trainer_processes)] if settings.trainer_processes > 1 else []


def _computing(threads: int) -> Mapping[str, str]:
    return dict.fromkeys(THREAD_VARIABLES, str(threads))
