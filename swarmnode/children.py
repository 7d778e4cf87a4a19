"""The child processes that compute for nodes: with which arguments and environment they start."""

from __future__ import annotations

from collections.abc import Mapping

from swarmnode.config.settings import Settings
from swarmnode.process import Child

THREADS = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


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


def policy_child(environment: Mapping[str, str], name: str) -> Child:
    """A policy host."""
    return Child("swarmnode.worker", name=name, environment={**environment, **THREADS})
