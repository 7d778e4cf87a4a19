"""The child processes that a simulation computes with: one scorer, and a policy host per core.

They outlive a single run: a study starts them once. Closing is the owner's duty.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from swarmnode.children import policy_child, scoring_child
from swarmnode.config.policy import PolicySettings
from swarmnode.config.settings import Settings
from swarmnode.rewards.client import Scorer
from swarmproto import SwarmRules, swarm_id


class Machine:
    """The running children of a simulation."""

    def __init__(self, settings: Settings, environment: Mapping[str, str]) -> None:
        self.swarm_id = simulated_swarm_id(settings)
        count = settings.simulation.hosts or available_cores()
        self.scoring = scoring_child(settings, self.swarm_id)
        self.hosts = [
            policy_child(environment, f"policy host {number}")
            for number in range(min(count, settings.simulation.nodes))
        ]
        self.scorer = Scorer(self.scoring, settings.rewards, trusting=True)
        self._made_for = _made_for(settings)

    def fits(self, settings: Settings) -> bool:
        """Whether the children would be the same for these settings."""
        return _made_for(settings) == self._made_for

    def start(self) -> None:
        """Start all children; they get ready in parallel, behind their first call."""
        for child in (self.scoring, *self.hosts):
            child.start()

    def close(self) -> None:
        """End all children."""
        for child in (*self.hosts, self.scoring):
            child.close_now()


def _made_for(settings: Settings) -> object:
    simulation = settings.simulation
    return simulated_swarm_id(settings), settings.rewards, simulation.hosts, simulation.nodes


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _policies(settings: Settings) -> Iterator[PolicySettings]:
    """The policies' settings by model."""
    for model in settings.simulation.models:
        yield settings.policy.model_copy(update={"model": model})


def simulated_swarm_id(settings: Settings) -> bytes:
    """The id of a simulated swarm: the hash of its rules, as for any public swarm."""
    rules = SwarmRules(
        name="simulation",
        tasks=tuple(sorted(settings.tasks.pairs)),
        completions_min=2,
        completions_max=64,
        completion_tokens_max=max(one.new_tokens for one in _policies(settings)),
        groups_per_bundle_max=64,
    )
    return swarm_id(rules)
