"""The same nodes on the in-memory network, in virtual time, with the delay that was measured.

Its rendezvous is one shared list: it knows no DHT, so that bytes of announcing and discovering are
not among its figures. Sealing, verifying, choosing, fetching and admission are real.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from functools import partial

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.network.memory import MemoryNetwork, Serve
from swarmproto import FetchRequest, FetchResponse
from tests.benchmarks.network_made import ROUND_SECONDS, Node
from tests.benchmarks.network_rows import Row
from tests.benchmarks.network_seen import fetch_figures

ROUNDS = 3
UNSEEN_ROUNDS = 3
"""The pool fills."""


class _Swarm:
    def __init__(self, count: int, fetch_seconds: float, clock: VirtualClock) -> None:
        # A fetch takes two delays, there and back.
        network = MemoryNetwork(clock, latency_seconds=fetch_seconds / 2, loss=0.0, seed=0)
        self.requests: Counter[int] = Counter()
        self.nodes: list[Node] = []
        for number in range(count):
            endpoint = network.endpoint(f"memory/{number}")
            serve = partial(self._answer, number, endpoint.shelf.answer)
            network.join(f"memory/{number}", serve)
            self.nodes.append(Node(number, endpoint, clock))

    def _answer(self, number: int, answer: Serve, request: FetchRequest) -> FetchResponse:
        self.requests[number] += 1
        return answer(request)

    def forget(self) -> None:
        """Count from here on."""
        self.requests.clear()
        for node in self.nodes:
            node.seen.forget()


async def _measure(count: int, fetch_seconds: float, clock: VirtualClock) -> Row:
    swarm = _Swarm(count, fetch_seconds, clock)
    async with asyncio.TaskGroup() as tasks:
        works = (Node.publish, Node.collect, Node.train)
        beside = [tasks.create_task(work(node)) for work in works for node in swarm.nodes]
        await clock.sleep(UNSEEN_ROUNDS * ROUND_SECONDS)
        swarm.forget()
        await clock.sleep(ROUNDS * ROUND_SECONDS)
        for task in beside:
            task.cancel()
    figures = {
        "latency_seconds": fetch_seconds / 2,
        "publishers_read": len(swarm.requests) / count,
        "requests_mean": swarm.requests.total() / (count * ROUNDS),
        "requests_busiest": max(swarm.requests.values()) / ROUNDS,
        **fetch_figures([node.seen for node in swarm.nodes], ROUNDS),
    }
    return Row("simulated", count, ROUND_SECONDS, {}, figures)


def measure(count: int, *, fetch_seconds: float) -> Row:
    """Measure `count` nodes whose fetches take `fetch_seconds` on average, there and back."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return runner.run(_measure(count, fetch_seconds, VirtualClock(loop)))
