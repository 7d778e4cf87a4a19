"""Network processes of one swarm, measured: what they send and compute, by what they are asked.

Four windows of whole rounds follow each other: nothing is asked of the processes (what keeps them
connected); every node publishes; every node discovers each second as well, as a collector does that
never has enough; and every node collects and trains, which discovers only while there is room.
What the second and the third cost beyond the one before is the price of what was added. At the end
bundles are fetched at once, for what a fetched byte costs on the wire.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from swarmnode.clock import SystemClock
from swarmnode.config.network import Network
from swarmnode.network.choice import Library
from swarmnode.network.order import NetworkOrder
from swarmnode.network.remote import RemoteTransport
from tests.benchmarks.network_made import (
    ROUND_SECONDS,
    RULES_BYTES,
    SWARM,
    Node,
    identity,
)
from tests.benchmarks.network_namespace import reading, resident_mib
from tests.benchmarks.network_rows import Layout, Round, Row, between
from tests.benchmarks.network_seen import Seen, fetch_figures, times

CROWDED_MODULE = "tests.benchmarks.network_crowded"
STARTED_AT_ONCE = 4
BUNDLES_FETCHED = 12
LOOKS_END_SECONDS = 5.0
JOINED_SECONDS = 90
SETTLE_SECONDS = 20.0

Work = Callable[[Node], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Window:
    """What goes on for so many rounds; the first `unseen` ones are not counted."""

    name: str
    rounds: int
    works: Sequence[Work] = ()
    unseen: int = 0


WINDOWS = (
    Window("idle", 2),
    Window("announce", 2, (Node.publish,), unseen=1),
    Window("discover", 6, (Node.publish, Node.look)),
    Window("fetch", 6, (Node.publish, Node.collect, Node.train), unseen=3),
)
"""The unseen rounds fill what is known, and the pool."""

CROWDED_WINDOWS = (Window("discover", 4, (Node.publish, Node.look), unseen=14),)
"""A node's estimate of the swarm's size needs some minutes to rise."""

TRIED_WINDOWS = (Window("idle", 1), Window("fetch", 1, (Node.publish, Node.collect, Node.train)))


def library_of(layout: Layout, number: int) -> Library:
    """What a node runs on: of a mixed swarm every second one on py-libp2p, not the first."""
    return "libp2p" if layout == "libp2p" or (layout == "mixed" and number % 2) else "hivemind"


class Processes:
    """Nodes 0 to N - 1, each with its network process; the first is everybody's bootstrap peer."""

    def __init__(self, count: int, folder: Path, layout: Layout) -> None:
        self._folder = folder
        self._layout = layout
        self._module = CROWDED_MODULE if layout == "crowded" else "swarmnode.networking"
        self.transports: list[RemoteTransport] = []
        self._count = count

    async def start(self) -> None:
        """Start all and wait until they are connected."""
        bootstrap = await self._start(0, ())
        for first in range(1, self._count, STARTED_AT_ONCE):
            numbers = range(first, min(first + STARTED_AT_ONCE, self._count))
            await asyncio.gather(*(self._start(number, bootstrap) for number in numbers))
        # Those without a DHT hear of others by announcements, of which there are none yet.
        wanted = min(self._count - 1, 3) if self._layout in ("swarmnode", "crowded") else 1
        for _ in range(JOINED_SECONDS):
            if min([each["peers"] for each in await self.health()]) >= wanted:
                return
            await asyncio.sleep(1.0)
        raise RuntimeError(f"not all were connected after {JOINED_SECONDS} s")

    async def _start(self, number: int, bootstrap: Sequence[str]) -> Sequence[str]:
        folder = self._folder / str(number)
        folder.mkdir(mode=0o700)
        order = NetworkOrder(
            private_key=identity(number).private_key,
            swarm_id=SWARM,
            rules=RULES_BYTES,
            folder=str(folder),
            listen=("/ip4/127.0.0.1/tcp/0",),
            bootstrap=tuple(bootstrap),
            exempt_networks=Network().exempt_networks,
            transport=library_of(self._layout, number),
        )
        transport = RemoteTransport(
            order, SystemClock(), on_saved_peers=lambda peers: None, module=self._module
        )
        self.transports.append(transport)
        await transport.start()
        if error := await transport.begun():
            raise RuntimeError(f"node {number} did not start: {error}")
        addresses: Sequence[str] = (await transport.health())["addresses"]
        return addresses

    async def health(self) -> list[Mapping[str, Any]]:
        """Of each."""
        return [await each.health() for each in self.transports]

    @property
    def process_ids(self) -> list[int]:
        """Of those that run."""
        return [each.process_id for each in self.transports if each.process_id is not None]

    async def close(self) -> None:
        """End all."""
        await asyncio.gather(*(each.close() for each in self.transports))


async def _window(window: Window, nodes: Sequence[Node], processes: Processes) -> list[Round]:
    loop = asyncio.get_running_loop()
    found: list[Round] = []
    async with asyncio.TaskGroup() as tasks:
        beside = [tasks.create_task(work(node)) for work in window.works for node in nodes]
        until, before = loop.time(), reading(processes.process_ids)
        for number in range(window.unseen + window.rounds):
            until += ROUND_SECONDS
            await asyncio.sleep(until - loop.time())
            now = reading(processes.process_ids)
            if number >= window.unseen:
                found.append(between(before, now, len(nodes)))
            elif number == window.unseen - 1:
                for node in nodes:
                    node.seen.forget()
            before = now
        for task in beside:
            task.cancel()
    return found


async def _measure(layout: Layout, count: int, tried: bool, folder: Path) -> Row:
    processes, clock, crowded = Processes(count, folder, layout), SystemClock(), layout == "crowded"
    windows = TRIED_WINDOWS if tried else CROWDED_WINDOWS if crowded else WINDOWS
    rounds: dict[str, list[Round]] = {}
    try:
        await processes.start()
        await asyncio.sleep(SETTLE_SECONDS)
        nodes = [Node(number, each, clock) for number, each in enumerate(processes.transports)]
        for window in windows:
            rounds[window.name] = await _window(window, nodes, processes)
            sent = [round(each.sent / 1000, 1) for each in rounds[window.name]]
            print(f"          {window.name}: KB a node and round {sent}", flush=True)
        health = await processes.health()
        figures = _figures([node.seen for node in nodes], rounds, health)
        if not crowded:
            figures["wire_share"] = await _wire_share(nodes, processes)
        figures["resident_mib"] = resident_mib(processes.process_ids)
        figures["load"] = os.getloadavg()[1]
    finally:
        await processes.close()
    if crowded:
        levels = [float(each["level"]) for each in health]
        figures |= {"level_min": min(levels), "level_max": max(levels)}
    return Row(layout, count, ROUND_SECONDS, rounds, figures)


async def _wire_share(nodes: Sequence[Node], processes: Processes) -> float:
    """Bytes on the loopback for each byte of fetch responses, with hardly anything else sent."""
    known = await asyncio.gather(*(node.announced(BUNDLES_FETCHED) for node in nodes))
    await asyncio.sleep(LOOKS_END_SECONDS)
    for node in nodes:
        node.seen.forget()
    before = reading(processes.process_ids)
    fetching = (node.fetch_bundles(each) for node, each in zip(nodes, known, strict=True))
    await asyncio.gather(*fetching)
    sent = reading(processes.process_ids).sent - before.sent
    return sent / sum(node.seen.fetched_bytes for node in nodes)


def _figures(
    seen: Sequence[Seen], rounds: Mapping[str, Sequence[Round]], health: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    fetched = fetch_figures(seen, len(rounds["fetch"])) if "fetch" in rounds else {}
    return {
        "authors_heard": statistics.fmean(len(each.authors) for each in seen),
        "peers": statistics.fmean(each["peers"] for each in health),
        "swarm_size": statistics.median(each["swarm_size"] for each in health),
        "restarts": float(sum(each["restarts"] for each in health)),
        **{f"looks/{name}": _summed(health, "looks", name) for name in _LOOKS},
        **times("announce", [s for each in seen for s in each.announce_seconds]),
        **fetched,
    }


_LOOKS = ("dht/looks", "dht/new", "peers/looks", "peers/new", "stores", "stores_unacknowledged")


def _summed(health: Sequence[Mapping[str, Any]], group: str, name: str) -> float:
    return float(sum(each.get(group, {}).get(name, 0) for each in health))


def measure(layout: Layout, count: int, *, tried: bool = False) -> Row:
    """Measure a swarm of `count` nodes in the network that this process is in."""
    # A p2pd that was killed may leave its folder a moment after us.
    with TemporaryDirectory(prefix="nb", ignore_cleanup_errors=True) as folder:
        return asyncio.run(_measure(layout, count, tried, Path(folder)))
