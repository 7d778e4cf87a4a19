"""The processes that a simulation computes with: one scorer, and a policy host per core.

They outlive a single run: a study starts them once. Closing is the owner's duty.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from swarmnode.channel import MAX_CALLS
from swarmnode.children import placed_policy, policy_child, scoring_child
from swarmnode.cluster.cluster import Cluster, address_of
from swarmnode.cluster.host import PlacedHost, stood
from swarmnode.config.policy import PolicySettings
from swarmnode.config.settings import Settings
from swarmnode.config.simulation import Simulation
from swarmnode.observe.words import counted
from swarmnode.process import Host
from swarmnode.rewards.client import Scorer
from swarmproto import SwarmRules, swarm_id


class Machine:
    """The running processes of a simulation."""

    def __init__(
        self,
        settings: Settings,
        environment: Mapping[str, str],
        log: Path = Path(os.devnull),
        said: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Of a cluster, Ray's own words go to `log`; `said` is told in a line where hosts are."""
        self.swarm_id = simulated_swarm_id(settings)
        self.scoring = scoring_child(settings, self.swarm_id)
        self.scorer = Scorer(self.scoring, settings.rewards, trusting=True)
        self._policies: _Here | _Spread
        if where := settings.simulation.cluster:
            cluster = Cluster(address_of(where), environment, log, said)
            self._policies = _Spread(settings.simulation, cluster)
        else:
            self._policies = _Here(settings.simulation, environment)
        self._made_for = _made_for(settings)

    @property
    def hosts(self) -> Sequence[Host]:
        """Where policies are; once they have been started."""
        return self._policies.hosts

    def fits(self, settings: Settings) -> bool:
        """Whether the processes would be the same for these settings."""
        return _made_for(settings) == self._made_for

    def start(self) -> None:
        """Start them all; those of this machine get ready in parallel, behind their first call.

        Raises ClusterError.
        """
        self.scoring.start()
        self._policies.start()

    def close(self) -> None:
        """End them all."""
        self._policies.close()
        self.scoring.close_now()


class _Here:
    """Policy hosts as children of this process."""

    def __init__(self, simulation: Simulation, environment: Mapping[str, str]) -> None:
        names = _names(simulation, available_cores())
        self.hosts = [policy_child(environment, name) for name in names]

    def start(self) -> None:
        for host in self.hosts:
            host.start()

    def close(self) -> None:
        for host in self.hosts:
            host.close_now()


class _Spread:
    """Policy hosts on the machines of a cluster."""

    def __init__(self, simulation: Simulation, cluster: Cluster) -> None:
        self.hosts: Sequence[PlacedHost] = []
        self._simulation = simulation
        self._cluster = cluster

    def start(self) -> None:
        machines = self._cluster.connect(self._simulation.hosts or available_cores())
        cores = sum(one.cores for one in machines)
        names = _names(self._simulation, min(cores, MAX_CALLS))
        self.hosts = [placed_policy(self._cluster, name) for name in names]
        self._cluster.run(stood(self.hosts))
        for machine, count in Counter(host.machine for host in self.hosts).items():
            self._cluster.tell(f"{counted(count, 'policy host')} on {machine}")

    def close(self) -> None:
        self._cluster.close_now()
        for host in self.hosts:
            host.close_now()


def _names(simulation: Simulation, cores: int) -> Sequence[str]:
    count = min(simulation.hosts or cores, simulation.nodes)
    return [f"policy host {number}" for number in range(count)]


def _made_for(settings: Settings) -> object:
    simulation = settings.simulation
    asked = simulation.hosts, simulation.nodes, simulation.cluster
    return simulated_swarm_id(settings), settings.rewards, asked


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
