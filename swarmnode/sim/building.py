"""Building the nodes of a simulated swarm: honest ones, and attackers where there is an attack.

An attacker is built like any other node and has a number after the honest ones, so that those have
the same keys, questions and luck with and without it. What an honest node is put into may be
changed (`Placing`): so a study shows a node that lacks some defence, which no setting can.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from swarmnode.clock import Clock
from swarmnode.config.settings import Settings
from swarmnode.keys import peer_id_of
from swarmnode.network.memory import MemoryNetwork
from swarmnode.node import Node, Surroundings, build_node
from swarmnode.policy.client import Durations, RemotePolicy
from swarmnode.prefixes import own_prefix
from swarmnode.publish import Identity
from swarmnode.rewards.channels import rewards
from swarmnode.sim.attacks.attacker import COLLECTING, Attacker
from swarmnode.sim.attacks.besetting import Beset, Hostile
from swarmnode.sim.attacks.measures import Measured
from swarmnode.sim.machine import Machine
from swarmproto import public_key_of

Placing = Callable[[Surroundings], Surroundings]
"""Changes what an honest node is put into."""

ONE_PREFIX = "203.0.113.0/24"
"""Where the attackers of `sybil` are connected from: a range for documentation (RFC 5737)."""


def unchanged(around: Surroundings) -> Surroundings:
    """As it is."""
    return around


def build_nodes(
    settings: Settings,
    machine: Machine,
    clock: Clock,
    fingerprints: Mapping[tuple[str, str], bytes],
    placing: Placing,
) -> tuple[Sequence[Node], Sequence[Attacker]]:
    """The honest nodes and the attackers. Raises UnknownFilter, UnusableScheduler."""
    simulation = settings.simulation
    hostile = _hostile(settings, machine.swarm_id)
    network = MemoryNetwork(
        clock,
        latency_seconds=simulation.latency_seconds,
        loss=simulation.loss,
        seed=simulation.seed,
        prefix_of=_prefixes(hostile),
    )
    site = _Site(machine, clock, fingerprints, network)
    honest = range(simulation.nodes)
    if hostile is None:
        return [site.node(n, settings_of(settings, n), placing) for n in honest], ()

    def beset(around: Surroundings) -> Surroundings:
        rng = random.Random(f"{simulation.seed}/beset/{around.number}")
        return placing(replace(around, transport=Beset(around.transport, hostile, clock, rng)))

    nodes = [site.node(n, settings_of(settings, n), beset) for n in honest]
    theirs = _of_attacker(settings)
    attackers = [
        Attacker(site.node(number, theirs, unchanged), _key(settings, number), theirs)
        for number in _attackers(settings)
    ]
    positive = settings.training.external_advantage == "positive"
    return [_measured(node, hostile, positive) for node in nodes], attackers


@dataclass(frozen=True, slots=True)
class _Site:
    """What all nodes have in common."""

    machine: Machine
    clock: Clock
    fingerprints: Mapping[tuple[str, str], bytes]
    network: MemoryNetwork

    def node(self, number: int, settings: Settings, placing: Placing) -> Node:
        """A node whose policy is yet to be made."""
        simulation = settings.simulation
        identity = simulated_identity(simulation.seed, number)
        durations = random.Random(f"{simulation.seed}/durations/{number}")
        spread = partial(_seconds, durations, simulation.duration_spread)
        policy = RemotePolicy(
            self.machine.hosts[number % len(self.machine.hosts)],
            number,
            publisher=identity.public_key,
            clock=self.clock,
            durations=Durations(
                generate=partial(spread, simulation.generate_seconds),
                train=partial(spread, simulation.train_seconds),
            ),
            rewards=partial(rewards, partial_credit=settings.rewards.partial_credit),
        )
        around = Surroundings(
            number=number,
            identity=identity,
            swarm_id=self.machine.swarm_id,
            levels=dict(settings.tasks.pairs),
            fingerprints=self.fingerprints,
            scorer=self.machine.scorer,
            transport=self.network.endpoint(_address(number)),
            clock=self.clock,
            score_seconds=partial(spread, simulation.score_seconds),
            seed=simulation.seed,
        )
        return build_node(settings, policy, placing(around))


def settings_of(settings: Settings, number: int) -> Settings:
    """The settings of one node, which differ in the model."""
    models = settings.simulation.models
    policy = settings.policy.model_copy(update={"model": models[number % len(models)]})
    return settings.model_copy(update={"policy": policy})


def simulated_identity(seed: int, number: int) -> Identity:
    """Keys that follow from the seed: fit for a simulation and for nothing else."""
    private = hashlib.sha256(f"swarmnode simulation key {seed}/{number}".encode()).digest()
    return Identity(private, public_key_of(private), private[:16])


def _of_attacker(settings: Settings) -> Settings:
    """The settings of an attacker, which takes of others only what its attack needs."""
    source = "peers" if settings.simulation.attack in COLLECTING else "own_past"
    selection = settings.selection.model_copy(update={"external_source": source})
    return settings_of(settings, 0).model_copy(update={"selection": selection})


def _attackers(settings: Settings) -> range:
    first = settings.simulation.nodes
    return range(first, first + settings.simulation.attackers)


def _key(settings: Settings, number: int) -> bytes:
    return simulated_identity(settings.simulation.seed, number).public_key


def _hostile(settings: Settings, swarm_id: bytes) -> Hostile | None:
    if settings.simulation.attack == "none":
        return None
    return Hostile(
        attack=settings.simulation.attack,
        swarm_id=swarm_id,
        keys=frozenset(_key(settings, number) for number in _attackers(settings)),
        holders=frozenset(map(_address, _attackers(settings))),
        honest_peers=settings.simulation.nodes - 1,
    )


def _prefixes(hostile: Hostile | None) -> Callable[[str], str]:
    if hostile is None or hostile.attack != "sybil":
        return own_prefix
    peers = frozenset(map(peer_id_of, hostile.keys))
    return lambda peer: ONE_PREFIX if peer in peers else own_prefix(peer)


def _measured(node: Node, hostile: Hostile, positive: bool) -> Node:
    policy = Measured(node.parts.policy, hostile.keys, positive=positive)
    return replace(node, parts=replace(node.parts, policy=policy))


def _address(number: int) -> str:
    return f"memory/{number}"


def _seconds(generator: random.Random, spread: float, average: float) -> float:
    return average * generator.uniform(1.0 - spread, 1.0 + spread)
