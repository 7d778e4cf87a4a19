"""The network process with two publishers a shard, so that a swarm of 16 shares out over shards.

`python -m tests.benchmarks.network_crowded FD`. The target is a constant of the protocol, not a
setting: all nodes of a swarm must have the same. So this process alone replaces it.
"""

from __future__ import annotations

import sys

from swarmnode import networking
from swarmnode.network import shards
from tests.benchmarks.network_made import CROWDED_PUBLISHERS

if __name__ == "__main__":
    shards.TARGET_PUBLISHERS = CROWDED_PUBLISHERS  # type: ignore[misc]
    networking.main(sys.argv[1:])
