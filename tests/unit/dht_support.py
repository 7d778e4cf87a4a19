"""Live peers on loopback for tests of the DHT: real p2pd processes, all ended at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import uvloop

from swarmnode.network import dht_node
from swarmnode.network.hivemind_dht import HivemindPeer
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.shards import bucket_of, shard_key, subkey_of
from swarmproto import public_key_of
from tests.unit.network_made import SWARM, announcement, bundle, private_key


def order(number: int, folder: Path, **changes: Any) -> PeerOrder:
    """For the key of that number; a server unless told otherwise."""
    return replace(PeerOrder(private_key(number), SWARM, folder, client=False), **changes)


@asynccontextmanager
async def peers(*orders: PeerOrder) -> AsyncIterator[list[HivemindPeer]]:
    """Peers of these orders, the first one bootstrap of the others."""
    started: list[HivemindPeer] = []
    try:
        started.append(await HivemindPeer.start(orders[0]))
        known = tuple(started[0].addresses)
        others = [replace(each, bootstrap=(*known, *each.bootstrap)) for each in orders[1:]]
        started += await asyncio.gather(*map(HivemindPeer.start, others))
        yield started
    finally:
        await asyncio.gather(*(peer.close() for peer in started))


def record(number: int, life: int = 300, swarm: bytes = SWARM) -> tuple[str, str, bytes, float]:
    """Key, subkey, value and expiry of an announcement that the key of that number makes now."""
    now = int(time.time())
    key = private_key(number)
    value = announcement(key, bundle(key, swarm=swarm), created=now, life=life, swarm=swarm)
    place = shard_key(swarm, bucket_of(now), "")
    return place, subkey_of(public_key_of(key)), value, float(now + life)


def run(scenario: Callable[[], Awaitable[None]], seconds: float = 100.0) -> None:
    """Under uvloop; nothing may be left behind: no task, no process, no complaint of the loop.

    Peers get more time to answer than a node gives them, so that a busy machine is no failure.
    """
    complaints: list[dict[str, Any]] = []

    async def watched() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: complaints.append(context))
        async with asyncio.timeout(seconds):
            await scenario()

    with patch.multiple(dht_node, MESSAGE_SECONDS=30.0, SEARCH_SECONDS=60.0):
        uvloop.run(watched())
    assert not complaints, complaints
    assert not [child for child in psutil.Process().children() if child.name() == "p2pd"]
