"""Generators that Ray places on the machines of a cluster, and places anew when they are lost.

Each of them is what `swarmnode generate` is where somebody starts it by hand: it calls the node,
shows the key, and is given a place there. The node knows nothing of Ray.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from swarmnode.children import placed_generator
from swarmnode.cluster.cluster import Cluster
from swarmnode.cluster.host import PlacedHost
from swarmnode.process import ChildError, ChildRefused

LIFE_SECONDS: Final = 14 * 86400.0
"""After which a generator is begun anew: a wait of poll has at most 24 days in milliseconds."""
FIRST_PAUSE_SECONDS: Final = 1.0
MOST_SECONDS_BETWEEN_TRIES: Final = 60.0
STEADY_SECONDS: Final = 120.0
"""A life of this length makes the next pause a first one again."""


def keep_placed(
    cluster: Cluster,
    count: int,
    order: Mapping[str, Any],
    gpus: int,
    pause: float = FIRST_PAUSE_SECONDS,
) -> None:
    """Have so many generators on the cluster, until this is interrupted.

    `order` is that of placed_generator.py. Raises ChildRefused where a machine can't generate for
    a reason that lasts, and ClusterError where the cluster is lost.
    """
    cluster.connect(count * order["threads"])
    names = [f"generator {number}" for number in range(1, count + 1)]
    hosts = [placed_generator(cluster, name, order["threads"], gpus) for name in names]
    cluster.run(_all_kept(cluster, hosts, order, pause))


async def _all_kept(
    cluster: Cluster, hosts: Sequence[PlacedHost], order: Mapping[str, Any], pause: float
) -> None:
    await asyncio.gather(*(_kept(cluster, host, order, pause) for host in hosts))


async def _kept(
    cluster: Cluster, host: PlacedHost, order: Mapping[str, Any], first_pause: float
) -> None:
    loop, pause = asyncio.get_running_loop(), first_pause
    while True:
        began = loop.time()
        host.start()
        try:
            await host.call("generate", order, LIFE_SECONDS)
            why = "it ended"
        except ChildRefused:
            raise
        except ChildError as error:
            if cluster.lost:
                raise
            why = str(error)
        if loop.time() - began > STEADY_SECONDS:
            pause = first_pause
        cluster.tell(f"{host.name}: {why}; it is placed anew in {pause:.0f} s")
        await asyncio.sleep(pause)
        pause = min(2 * pause, MOST_SECONDS_BETWEEN_TRIES)
