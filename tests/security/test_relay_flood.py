"""A relay on py-libp2p under a flood: those whom it carries don't notice, and it is bounded.

The relay is a network process of its own, and so are the attackers (tests/real/relay_flooding.py):
they ask for places and circuits, some to a peer that is carried, and one pair sends what it can.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import AsyncExitStack
from pathlib import Path

import psutil

from swarmnode.network.doors import MIB, Limits
from tests.security.flood_support import attacked, member
from tests.unit.libp2p_support import ECHO, echo, guest, order, peers, run, until

SECONDS = float(os.environ.get("SWARMNODE_TEST_RELAY_FLOOD", "4"))
PER_SECOND = 500
EVERY_SECONDS = 0.2
BUNDLE_BYTES = 21_000
MORE_BYTES = 50 * MIB
LATE_SECONDS = 2.0
CARRIED = Limits().carried.each


def test_what_a_relay_carries_arrives_while_strangers_flood_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        # Loopback's peers are prefixes of their own, as peers of the internet are.
        relaying = {"relay": True, "exempt_networks": ("127.0.0.0/8",)}
        async with AsyncExitStack() as stack:
            relay = await stack.enter_async_context(member(1, tmp_path, "libp2p", **relaying))
            [address] = (await relay.health())["addresses"]
            hidden = {"public": True, "unreached": lambda: True, "bootstrap": (address,)}
            on = await stack.enter_async_context(guest())
            [one] = await stack.enter_async_context(peers(on, order(2, tmp_path, **hidden)))
            [two] = await stack.enter_async_context(peers(on, order(3, tmp_path, **hidden)))
            await until(lambda: "p2p-circuit" in str(one.addresses))
            one.serve(ECHO, echo, BUNDLE_BYTES)
            assert await two.connect(next(each for each in one.addresses if "circuit" in each))
            process = psutil.Process(relay.process_id)
            before, most, took = process.memory_info().rss, 0, list[float]()
            attackers = await attacked(
                "tests.real.relay_flooding", address, one.peer_id, SECONDS, PER_SECOND
            )
            begun = time.monotonic()
            while time.monotonic() - begun < SECONDS:
                asked = time.monotonic()
                bundle = os.urandom(BUNDLE_BYTES)
                assert await two.call(one.peer_id, ECHO, bundle, BUNDLE_BYTES, 10) == bundle
                took.append(time.monotonic() - asked)
                most = max(most, process.memory_info().rss)
                await asyncio.sleep(EVERY_SECONDS)
            said, _ = await attackers.communicate()
            told, health = json.loads(said), await relay.health()
        relayed = health["relayed"]
        slowest = sorted(took)[int(len(took) * 0.99)]
        print(f"{told}; {relayed}; {health['turned_away']}")
        print(f"{len(took)} bundles, p99 {slowest:.2f} s; {(most - before) / MIB:.0f} MiB")
        assert slowest < LATE_SECONDS
        assert most - before < MORE_BYTES
        assert (health["restarts"], health["error"]) == (0, "")
        assert relayed["circuits_refused"] > 0
        allowed = CARRIED.burst + CARRIED.per_second * (SECONDS + 2)
        assert MIB < told["bytes"] < 1.1 * allowed, "one sender's share, and no more"

    run(scenario)
