"""rl-swarm's layout on hivemind: whole batches under one key a round, and everybody reads all.

Each node stores its 20 KB batch as one subkey of the round's key; when all have stored, each reads
the whole dictionary, merged from all replicas. One store and one read a node and round, a beam of
50 peers, no caches: as rl-swarm is set up (swarm-sampling.md section 3, network.md section 4, A).
It runs on hivemind's own DHTNode, all nodes in this one process, each with its own p2pd. The only
module beside light_hivemind.py that knows hivemind; the two must not meet in one process, since
that one puts limits on hivemind under which such dictionaries can't be read.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from typing import Any

from tests.benchmarks.network_namespace import Reading, reading
from tests.benchmarks.network_rows import Round, Row, between

BATCH_BYTES = 20_000
ROUNDS = 4
BEAM = 50
EXPIRY_SECONDS = 600.0
WAIT_SECONDS = 30.0
"""For an answer: long, since it changes no byte, and a busy machine is slow."""
STARTED_AT_ONCE = 4


class _Swarm:
    def __init__(self) -> None:
        self.peers: list[Any] = []
        self.nodes: list[Any] = []

    async def start(self, count: int) -> None:
        await self._add(None)
        addresses = await self.peers[0].get_visible_maddrs()
        for first in range(1, count, STARTED_AT_ONCE):
            many = min(STARTED_AT_ONCE, count - first)
            await asyncio.gather(*(self._add(addresses) for _ in range(many)))

    async def _add(self, bootstrap: Sequence[Any] | None) -> None:
        from hivemind.dht.node import DHTNode
        from hivemind.p2p import P2P

        peer = await P2P.create(
            initial_peers=bootstrap,
            host_maddrs=["/ip4/127.0.0.1/tcp/0"],
            startup_timeout=120,
        )
        self.peers.append(peer)
        node = await DHTNode.create(
            p2p=peer,
            initial_peers=bootstrap,
            cache_locally=False,
            cache_on_store=False,
            cache_nearest=0,
            wait_timeout=WAIT_SECONDS,
        )
        self.nodes.append(node)

    async def close(self) -> None:
        await asyncio.gather(*(node.shutdown() for node in self.nodes), return_exceptions=True)
        await asyncio.gather(*(peer.shutdown() for peer in self.peers), return_exceptions=True)


async def _publish(node: Any, key: str, rng: random.Random) -> bool:
    from hivemind.utils.timed_storage import get_dht_time

    expires = get_dht_time() + EXPIRY_SECONDS
    batch = rng.randbytes(BATCH_BYTES)
    name = str(node.peer_id)
    return bool(await node.store(key, batch, expires, subkey=name))


async def _read(node: Any, key: str) -> int:
    found = await node.get(key, latest=True, beam_size=BEAM)
    return 0 if found is None else len(found.value)


def _now() -> Reading:
    return reading([os.getpid()])


async def _measure(count: int) -> Row:
    swarm, rng = _Swarm(), random.Random(0)
    rounds: dict[str, list[Round]] = {"publish": [], "read": []}
    read: list[int] = []
    try:
        await swarm.start(count)
        await asyncio.sleep(10.0)
        for number in range(ROUNDS):
            before = _now()
            await asyncio.gather(*(_publish(node, str(number), rng) for node in swarm.nodes))
            await asyncio.sleep(1.0)  # as rl-swarm does before it reads
            between_both = _now()
            read += await asyncio.gather(*(_read(node, str(number)) for node in swarm.nodes))
            after = _now()
            rounds["publish"].append(between(before, between_both, count))
            rounds["read"].append(between(between_both, after, count))
    finally:
        await swarm.close()
    figures = {"read_share": sum(read) / (len(read) * count), "load": os.getloadavg()[1]}
    return Row("rl-swarm", count, 0.0, rounds, figures)


def measure(count: int) -> Row:
    """Measure a swarm of `count` nodes in the network that this process is in."""
    return asyncio.run(_measure(count))
