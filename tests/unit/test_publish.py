"""Rounds too large for one bundle or announcement leave in parts; nothing ends the publisher."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.network.memory import MemoryNetwork, MemoryTransport
from swarmnode.publish import AscendingNumbers, Numbers, Publisher
from swarmnode.types import Scored
from swarmproto import (
    ANNOUNCEMENT_BYTES_MAX,
    BundleHeader,
    FetchRequest,
    open_announcement,
    open_header,
)
from tests.unit.made import scored
from tests.unit.test_swarm_traffic import SWARM, identity, simulate

MANY_TASKS = [f"a_task_with_a_rather_long_name_{number:02d}" for number in range(40)]
WHO = identity(1)


def of_task(task: str) -> Scored:
    return scored(task=task, publisher=WHO.public_key, source="local")


def with_text(text: str, completions: int) -> Scored:
    one = scored([1.0] * completions, publisher=WHO.public_key, source="local")
    long = tuple(replace(each, text=text) for each in one.group.completions)
    return replace(one, group=replace(one.group, completions=long))


def publisher_on(
    transport: MemoryTransport,
    clock: VirtualClock,
    numbers: Numbers | None = None,
    announcement_bytes_max: int = ANNOUNCEMENT_BYTES_MAX,
) -> Publisher:
    return Publisher(
        identity=WHO,
        swarm_id=SWARM,
        transport=transport,
        clock=clock,
        fingerprints={(task, "easy"): b"f" * 32 for task in [*MANY_TASKS, "basic_arithmetic"]},
        announcement_seconds=300,
        numbers=numbers,
        announcement_bytes_max=announcement_bytes_max,
    )


def published(groups: Sequence[Scored]) -> tuple[dict[str, int], int, int]:
    """Counts of the publisher, bundles on its shelf, announcements that others see."""
    outcome: list[tuple[dict[str, int], int, int]] = []

    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        transport = network.endpoint("1")
        publisher = publisher_on(transport, clock)
        await publisher.publish(groups)
        await clock.sleep(1.0)
        seen = await network.endpoint("2").discover(64)
        outcome.append((dict(publisher.counts), len(transport.shelf._held), len(seen)))

    simulate(scenario)
    return outcome[0]


@pytest.mark.parametrize(
    ("groups", "least"),
    [
        ([of_task("basic_arithmetic")] * 65, 2),
        ([of_task(task) for task in MANY_TASKS], 2),
        ([with_text("a" * 12_000, 20)] * 10, 2),
        ([of_task("basic_arithmetic")] * 64, 1),
    ],
)
def test_a_round_leaves_in_as_many_bundles_as_it_needs(groups: list[Scored], least: int) -> None:
    counts, held, seen = published(groups)
    assert counts["groups"] == len(groups)
    assert counts["bundles"] == held == seen >= least
    assert "unsendable" not in counts


def test_a_group_that_no_bundle_takes_is_counted() -> None:
    one = of_task("basic_arithmetic")
    nameless = replace(one.group, policy=replace(one.group.policy, name=""))
    counts, held, seen = published([replace(one, group=nameless)])
    assert counts == {"unsendable": 1}
    assert (held, seen) == (0, 0)


def header_of(transport: MemoryTransport, name: bytes) -> BundleHeader:
    header_bytes = transport.shelf.answer(FetchRequest(SWARM, name, ())).header_bytes
    assert header_bytes is not None
    return open_header(header_bytes, SWARM)


def test_the_number_of_a_bundle_is_what_its_source_says_of_its_time() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        transport = network.endpoint("1")
        asked: list[int] = []

        class Kept:
            async def next(self, now_ms: int) -> int:
                asked.append(now_ms)
                return 7_000 + len(asked)

        publisher = publisher_on(transport, clock, Kept())
        await publisher.publish([of_task("basic_arithmetic")])
        await clock.sleep(2.0)
        await publisher.publish([of_task("basic_arithmetic")])
        headers = [header_of(transport, name) for name in transport.shelf._held]
        assert [header.sequence for header in headers] == [7_001, 7_002]
        assert [header.created for header in headers] == asked
        assert asked[1] - asked[0] == 2_000

    simulate(scenario)


def test_numbers_ascend_within_a_millisecond_and_follow_the_clock_beyond() -> None:
    async def numbers() -> list[int]:
        ascending = AscendingNumbers()
        return [await ascending.next(now) for now in (1000, 1000, 500, 2000)]

    assert asyncio.run(numbers()) == [1000, 1001, 1002, 2000]


def test_a_paused_publisher_withholds_rounds_and_counts_them() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        transport = network.endpoint("1")
        publisher = publisher_on(transport, clock)
        publisher.paused = True
        await publisher.publish([of_task("basic_arithmetic")] * 3)
        assert publisher.counts == {"withheld": 1}
        assert not transport.shelf._held
        publisher.paused = False
        await publisher.publish([of_task("basic_arithmetic")])
        assert publisher.counts["bundles"] == 1

    simulate(scenario)


class ManyHolders(MemoryTransport):
    """Names eight long addresses: more than an announcement has room for beside its groups."""

    @property
    def holders(self) -> Sequence[str]:
        return [f"/ip4/10.0.0.{number}/tcp/4000/p2p/{'x' * 100}" for number in range(8)]


def test_holders_that_do_not_fit_are_left_out_before_groups_are_parted() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        endpoint = network.endpoint("1")
        transport = ManyHolders(network, "1", endpoint.shelf, random.Random(1))
        publisher = publisher_on(transport, clock)
        await publisher.publish([of_task("basic_arithmetic")] * 4)
        await clock.sleep(1.0)
        (delivered,) = await network.endpoint("2").discover(64)
        announcement = open_announcement(delivered.data, SWARM)
        assert publisher.counts["bundles"] == 1
        assert 1 < len(announcement.holders) < 8
        assert list(announcement.holders) == transport.holders[: len(announcement.holders)]

    simulate(scenario)


@pytest.mark.parametrize("limit", [ANNOUNCEMENT_BYTES_MAX, 700])
def test_announcements_stay_below_the_limit_of_their_swarm(limit: int) -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        endpoint = network.endpoint("1")
        transport = ManyHolders(network, "1", endpoint.shelf, random.Random(1))
        publisher = publisher_on(transport, clock, announcement_bytes_max=limit)
        await publisher.publish([of_task("basic_arithmetic")] * 4)
        await clock.sleep(1.0)
        (delivered,) = await network.endpoint("2").discover(64)
        assert limit - 160 < len(delivered.data) <= limit, "as many holders as fit"

    simulate(scenario)


def test_an_endpoint_serves_what_it_announced_and_tells_its_health() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        transport, other = network.endpoint("1"), network.endpoint("2")
        await transport.start()
        assert (await transport.health())["state"] == "alone"
        await other.start()
        await publisher_on(transport, clock).publish([of_task("basic_arithmetic")])
        await clock.sleep(1.0)
        (delivered,) = await other.discover(64)
        announcement = open_announcement(delivered.data, SWARM)
        (holder,) = announcement.holders
        response = await other.fetch(holder, FetchRequest(SWARM, announcement.bundle_id, (0,)))
        assert response.status == "ok"
        health = await other.health()
        assert (health["state"], health["peers"], health["known_announcements"]) == (
            "connected",
            1,
            1,
        )
        await transport.close()
        assert (await other.health())["state"] == "alone"

    simulate(scenario)
