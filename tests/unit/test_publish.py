"""Rounds too large for one bundle or announcement leave in parts; nothing ends the publisher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.network.memory import MemoryNetwork
from swarmnode.publish import Publisher
from swarmnode.types import Scored
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


def published(groups: Sequence[Scored]) -> tuple[dict[str, int], int, int]:
    """Counts of the publisher, bundles on its shelf, announcements that others see."""
    outcome: list[tuple[dict[str, int], int, int]] = []

    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        transport = network.endpoint("1")
        publisher = Publisher(
            identity=WHO,
            swarm_id=SWARM,
            transport=transport,
            clock=clock,
            fingerprints={(task, "easy"): b"f" * 32 for task in [*MANY_TASKS, "basic_arithmetic"]},
            announcement_seconds=300,
        )
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
