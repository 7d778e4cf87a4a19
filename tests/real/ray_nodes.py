"""A Ray cluster of several nodes on this machine, on loopback alone, for tests.

`python -m tests.real.ray_nodes CORES CORES ...` prints the address, then the node ids in that
order. A line `kill NUMBER` on standard input ends that node as a crash would, and prints `killed`;
the end of the input ends them all.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

OBJECT_STORE_BYTES = 80 * 1024 * 1024
LOOPBACK = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_worker_niceness": "0",
}
"""Where Ray's nodes listen, and that they report to nobody; read when it is imported."""
STARTS = 4
"""A node has 30 s to begin, by a constant of Ray's; on a busy machine that may not be enough."""


def main(cores: Sequence[int]) -> None:
    os.environ.update(LOOPBACK)
    from ray.cluster_utils import Cluster

    cluster = Cluster()

    def begun(count: int) -> Any:
        for start in range(1, STARTS + 1):
            try:
                return cluster.add_node(
                    num_cpus=count,
                    include_dashboard=False,
                    dashboard_port=None,
                    object_store_memory=OBJECT_STORE_BYTES,
                )
            except Exception as error:
                print(f"start {start}: {error}", file=sys.stderr)
                if start == STARTS:
                    raise

    try:
        nodes = [begun(count) for count in cores]
        print(cluster.address, *(node.node_id for node in nodes), flush=True)
        for line in sys.stdin:
            number = int(line.removeprefix("kill "))
            cluster.remove_node(nodes[number], allow_graceful=False)
            print("killed", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
