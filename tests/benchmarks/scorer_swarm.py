"""Verification end to end: announced bundles of many authors become scored groups in the pool.

A collector with its admission, the real scorer process, and a network inside this process: what is
measured is everything that is done about a peer's bundle after its bytes have arrived, signatures,
hashes, decoding, regeneration, scoring, pooling, and the encoding of answers by their holders too.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

from swarmnode.clock import SystemClock
from swarmnode.collect import Collector
from swarmnode.config.rewards import Rewards
from swarmnode.network.memory import MemoryNetwork
from swarmnode.process import Child
from swarmnode.publish import Identity, Publisher
from swarmnode.rewards.budget import ScorerBudget
from swarmnode.rewards.client import Scorer
from swarmnode.scored import NodeRewards
from swarmnode.selection.admission import AdmissionRules
from swarmnode.selection.pool import Pool
from swarmnode.types import Scored
from tests.benchmarks.scorer_work import (
    COMPLETIONS,
    NINE,
    SWARM,
    made,
    private_key,
    public_key,
)
from tests.benchmarks.sharing_markdown import table

AUTHORS = 128
BUNDLE = 8
ROUND_SECONDS = 30.0
STILL_SECONDS = 10.0
"""After so long without another group nothing more is waited for."""

LEVELS = [(task, "easy") for task in NINE]
FINGERPRINTS = {level: bytes(32) for level in LEVELS}


async def verified(start: Callable[[str], Child], cpu_seconds: Callable[[Child], float]) -> str:
    """Groups by CPU second, with a worker for each author and with one for all."""
    rows = []
    for trusting, name in ((False, "a worker for each author"), (True, "one for all")):
        child = start("swarmnode.scoring")
        try:
            whole, daemon = await _rate(child, cpu_seconds, trusting=trusting)
        finally:
            child.close_now()
        peers = whole * ROUND_SECONDS / BUNDLE
        rows.append([name, f"{whole:,.0f}", f"{daemon:,.0f}", f"{peers:,.0f}"])
    names = [
        "workers",
        "groups a CPU second",
        "of the daemon's half alone",
        "peers that a core follows",
    ]
    return table(names, rows)


async def _rate(
    child: Child, cpu_seconds: Callable[[Child], float], *, trusting: bool
) -> tuple[float, float]:
    clock = SystemClock()
    network = MemoryNetwork(clock, latency_seconds=0.0, loss=0.0, seed=1)
    scorer = Scorer(child, Rewards(), trusting=trusting)
    await scorer.draw(public_key(0), "bf", "easy", 0, 1)  # until it has started
    pool = Pool(capacity=AUTHORS * BUNDLE, age_seconds=600.0)
    for number in range(1, AUTHORS + 1):
        await _publish(network, clock, number)
    budget = ScorerBudget(1.0, 600.0)
    collector = Collector(
        own_key=public_key(0),
        rules=AdmissionRules(SWARM, FINGERPRINTS, 512, 120.0, wants_dead=False),
        transport=network.endpoint("reader"),
        rewards=NodeRewards(scorer, clock, lambda: 0.0, budget),
        pool=pool,
        clock=clock,
        rng=random.Random(1),
        every_seconds=1.0,
        discover_count=AUTHORS,
        groups_per_look=AUTHORS * BUNDLE,
    )
    before, ours = cpu_seconds(child), time.process_time()
    await collector.look()
    taken, since = len(pool), clock.now()
    # A look leaves what takes longer to go on beside the next one.
    while pool.room and clock.now() - since < STILL_SECONDS:
        await clock.sleep(0.1)
        if len(pool) > taken:
            taken, since = len(pool), clock.now()
    spent, ours = cpu_seconds(child) - before, time.process_time() - ours
    if pool.room:
        raise RuntimeError(f"only {len(pool)} groups came through: {collector.dropped}")
    return len(pool) / spent, len(pool) / ours


async def _publish(network: MemoryNetwork, clock: SystemClock, number: int) -> None:
    identity = Identity(private_key(number), public_key(number), bytes(16))
    transport = network.endpoint(f"peer {number}")
    await transport.start()
    publisher = Publisher(
        identity=identity,
        swarm_id=SWARM,
        transport=transport,
        clock=clock,
        fingerprints=FINGERPRINTS,
        announcement_seconds=300.0,
    )
    half_right = tuple(float(place % 2) for place in range(COMPLETIONS))
    groups = [Scored(group, half_right, "local", 0.0) for group in made(number, LEVELS, BUNDLE)]
    await publisher.publish(groups)


if __name__ == "__main__":
    from tests.benchmarks.scorer import child_of, cpu_seconds

    print(asyncio.run(verified(child_of, cpu_seconds)))
