"""A node that another one with its key was before: it publishes nothing and takes nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from swarmnode.clock import VirtualClock
from swarmnode.collect import FULL_SECONDS
from swarmnode.controls import OwnPast
from swarmnode.node import Incoming, Node
from swarmnode.publish import Identity, Publisher
from tests.unit.collecting_support import (
    FETCH_SECONDS,
    FINGERPRINTS,
    OWN_KEY,
    SWARM,
    Scene,
    Stranger,
    honestly,
    scene,
    simulate,
)
from tests.unit.made import scored


def node_of(here: Scene, incoming: Incoming) -> Node:
    """Its outgoing and its incoming side, and nothing else."""
    publisher = Publisher(
        identity=Identity(bytes(32), OWN_KEY, b"i" * 16),
        swarm_id=SWARM,
        transport=here.transport,
        clock=here.clock,
        fingerprints=FINGERPRINTS,
        announcement_seconds=300.0,
    )
    nothing: Any = None
    return Node(nothing, nothing, publisher, incoming, nothing, nothing, nothing, here.transport)


def test_a_withdrawn_node_takes_nothing_of_peers_and_lets_go_of_what_it_took() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one, two = scene(clock), Stranger(1, clock), Stranger(2, clock)
        node = node_of(here, here.collector)
        await here.hears_of(one, 5)
        assert len(here.pool) == 1
        node.withdraw()
        assert len(here.pool) == 0
        await here.hears_of(two, 6)
        assert len(here.pool) == 0
        assert len(here.transport.asked) == 1, "it does not even ask"

    simulate(scenario)


def test_what_is_under_way_when_a_node_withdraws_does_not_reach_the_pool() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        node = node_of(here, here.collector)
        bundle = one.bundle(one.group(5))
        here.transport.serving[one.address] = honestly(bundle)
        looking = asyncio.ensure_future(here.look(one.announcement(bundle)))
        await clock.sleep(FETCH_SECONDS / 2)
        assert len(here.transport.asked) == 1
        node.withdraw()
        await looking
        assert len(here.pool) == 0
        assert here.transport.held == [], "nor is it passed on"

    simulate(scenario)


def test_a_withdrawn_node_publishes_nothing() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock)
        node = node_of(here, here.collector)
        node.withdraw()
        # Were it announced, the transport would raise.
        await node.publisher.publish([scored([1.0, 0.0], index=1, publisher=OWN_KEY)])
        assert node.publisher.counts == {"withheld": 1}

    simulate(scenario)


def test_a_control_arm_that_replays_its_own_past_goes_on() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock)
        own = OwnPast(here.pool)
        here.pool.add(scored([1.0, 0.0], index=1, publisher=OWN_KEY))
        node_of(here, own).withdraw()
        assert len(here.pool) == 1

    simulate(scenario)


def test_a_full_pool_hides_no_other_node_with_our_key_and_forgets_no_bundle() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, twin, one = scene(clock), Stranger(0, clock), Stranger(1, clock)
        while here.pool.room:
            here.pool.add(replace(scored([1.0, 0.0], publisher=b"p" * 32), received=clock.now()))
        here.transport.prefixes[one.name] = ""  # which holds all places already
        known = twin.bundle(twin.group(5)), one.bundle(one.group(6))
        here.transport.serving[one.address] = honestly(known[1])
        announced = [twin.announcement(known[0], instance=b"j" * 16), one.announcement(known[1])]
        await here.look(*announced)
        assert here.duplicates == [], "it has looked a moment ago"
        await clock.sleep(FULL_SECONDS)
        await here.look(*announced)
        assert [instance for instance, _ in here.duplicates] == [b"j" * 16]
        assert here.transport.asked == []
        here.pool.clear()
        await here.look(*announced)
        assert len(here.pool) == 1

    simulate(scenario)
