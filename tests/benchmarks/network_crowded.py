"""The network process with two publishers a shard, so that a swarm of 16 shares out over shards.

`python -m tests.benchmarks.network_crowded FD`. The target is a constant of the protocol, not a
setting: all nodes of a swarm must have the same. So this process alone replaces it; and it tells
beside its health how many bits of prefix it publishes under.
"""

from __future__ import annotations

import sys
from typing import Any

from swarmnode import networking
from swarmnode.clock import Clock
from swarmnode.network import shards
from swarmnode.network.membership import Membership
from swarmnode.network.reporting import health_of
from tests.benchmarks.network_made import CROWDED_PUBLISHERS


def health_with_level(member: Membership, clock: Clock) -> dict[str, Any]:
    """As health_of, and `level`."""
    return {**health_of(member, clock), "level": member.rendezvous.estimate.level}


if __name__ == "__main__":
    # A constant of the protocol and a function of another module: mypy is right to mind, and this
    # process is no node but a measurement of what another constant would do.
    shards.TARGET_PUBLISHERS = CROWDED_PUBLISHERS  # type: ignore[misc]
    networking.health_of = health_with_level  # type: ignore[attr-defined]
    networking.main(sys.argv[1:])
