"""What a node of `policy.mode` = `split` has beside the others: its generators, put together.

Only builds; starts nothing and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from swarmnode.children import policy_child
from swarmnode.clock import Clock
from swarmnode.node import Node
from swarmnode.outfit import Plan, making_of
from swarmnode.policies import policy_order
from swarmnode.policy.client import RemotePolicy
from swarmnode.policy.generator import RemoteGenerator
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import Child
from swarmnode.remote_generators import Place
from swarmnode.rewards.client import Scorer
from swarmnode.split.generators import Generator
from swarmnode.split.loops import Split


def generator_children(plan: Plan) -> Mapping[str, Child]:
    """The processes that generate, by their names; none where the policy samples for itself."""
    settings = plan.settings.policy
    count = settings.generators if settings.mode == "split" else 0
    names = [f"generator-{number}" for number in range(1, count + 1)]
    return {name: policy_child(plan.environment, name, settings.host_threads) for name in names}


def places_elsewhere(plan: Plan) -> Sequence[Place]:
    """Room for generators on other machines."""
    settings = plan.settings.policy
    count = settings.remote_generators if settings.mode == "split" else 0
    return [Place(f"remote-{number}") for number in range(1, count + 1)]


def split_of(
    plan: Plan,
    node: Node,
    hosts: Mapping[str, Child | Place],
    scorer: Scorer,
    clock: Clock,
) -> Split | None:
    """Both loops of the node over its generators' hosts; None where it has none."""
    if not hosts:
        return None
    key = plan.identity.public_key
    generators = [
        Generator(
            name,
            number,
            host,
            RemoteGenerator(host, key),
            _ordered(plan, scorer, node.policy, name, number),
            clock,
            elsewhere=isinstance(host, Place),
        )
        for number, (name, host) in enumerate(hosts.items(), start=1)
    ]
    return Split(
        node.parts,
        node.policy,
        generators,
        plan.settings.policy,
        versions_per_round=plan.settings.training.inner_steps,
        last_round=plan.rounds,
        clock=clock,
    )


def _ordered(
    plan: Plan, scorer: Scorer, policy: RemotePolicy, name: str, number: int
) -> Callable[[], Awaitable[PolicyOrder]]:
    """What a generator's host is told whenever it has to make its policy."""
    rng = plan.rng(f"sampling of {name}")

    async def order() -> PolicyOrder:
        # Another seed each time: one that comes back must not sample what it sampled before.
        making = making_of(plan.settings, b"", rng.getrandbits(48), plan.cache)
        making = replace(making, weights_home=plan.home.path)
        made = await policy_order(plan.settings, scorer, making, base=[])
        # As the trainer's, whatever this machine would choose now.
        return replace(made, policy={**made.policy, "dtype": policy.dtype}, generator=number)

    return order
