"""Steering in a node: where the setting says so, and what is fetched for it."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from swarmnode.clock import SystemClock, VirtualClock
from swarmnode.collect import Collector
from swarmnode.config.settings import load_settings
from swarmnode.node import Node
from swarmnode.selection.budget import Preference, Wanted, indifferent, within_budget
from swarmnode.selection.places import Places
from swarmnode.selection.steering import Steered
from swarmnode.sim.building import build_nodes, unchanged
from swarmnode.sim.machine import Machine
from swarmproto import AnnouncedGroup, Announcement
from tests.unit.collecting_support import Stranger, scene, simulate

SHARES = {"a": 0.7, "b": 0.2, "c": 0.1}


def peer(number: int) -> bytes:
    return bytes([number]) * 32


def built(*assignments: str) -> Node:
    """A node of a simulation, whose children are never started."""
    settings = load_settings(assignments=["simulation.nodes=1", *assignments])
    fingerprints = dict.fromkeys(settings.tasks.pairs, bytes(32))
    machine = Machine(settings, {})
    ((node,), _) = build_nodes(settings, machine, SystemClock(), fingerprints, unchanged)
    return node


def test_a_node_is_steered_where_the_setting_says_so_by_the_shares_of_its_own_scheduler() -> None:
    def steered(*assignments: str) -> Steered | None:
        node = built(*assignments)
        asyncio.run(node.scheduler.weights())
        return node.parts.steered

    assert steered() is None
    shares = "scheduling.static_weights=[1,0,0,0,0,0]"
    made = steered("scheduling.steer_external=true", "scheduling.kind=static", shares)
    assert made is not None
    made.begin(())
    wanted = made.figures(())
    first = load_settings().tasks.pairs[0][0]
    assert wanted[f"steering/wanted/{first}"] == pytest.approx(0.9)


def announced(publisher: int, *tasks: str) -> Wanted:
    groups = tuple(AnnouncedGroup(task, "easy", 1, 2) for task in tasks)
    ids = (bytes(32), peer(publisher), bytes(16), bytes(32))
    announcement = Announcement(*ids, 1000, groups, 0, 1, 2, (), bytes(64), b"")
    return Wanted(announcement, tuple(range(len(tasks))), f"192.0.{publisher}.0/24")


def test_of_each_bundle_the_rather_what_is_wanted_is_fetched_and_of_nobody_more_than_before() -> (
    None
):
    found = [announced(1, *"aabbbbbb"), announced(2, "b", "b", "c"), announced(3, "c")]
    fetched: Counter[str] = Counter()
    for seed in range(300):
        one, other = (
            within_budget(
                found,
                groups=6,
                announced_bytes=10**6,
                places=Places(100, {}),
                rng=random.Random(seed),
                prefers=prefers,
            )
            for prefers in (indifferent, SHARES.__getitem__)
        )
        assert sorted(len(each.positions) for each in one) == [1, 2, 2]
        assert sorted(len(each.positions) for each in other) == [1, 2, 2]
        for each in other:
            if each.announcement.public_key == peer(1):
                groups = each.announcement.groups
                fetched.update(groups[position].task for position in each.positions)
    # Indifferently one of four is of task a. Drawn one by one by 0.7 and 0.2 it is, for each of the
    # first: 1.4 / 2.6, and what follows from it for the second.
    first = 1.4 / 2.6
    second = first * 0.7 / 1.9 + (1.0 - first) * 1.4 / 2.4
    assert fetched["a"] / fetched.total() == pytest.approx((first + second) / 2, abs=0.05)


def test_what_has_no_share_is_fetched_last() -> None:
    found = [announced(1, "a", "b", "b", "b")]
    for seed in range(20):
        (chosen,) = within_budget(
            found,
            groups=2,
            announced_bytes=10**6,
            places=Places(100, {}),
            rng=random.Random(seed),
            prefers=lambda task: float(task == "a"),
        )
        assert 0 in chosen.positions
        assert len(chosen.positions) == 2


def test_a_look_fetches_by_what_is_preferred() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(
            clock,
            groups_per_look=2,
            prefers=lambda task: float(task == "bf"),
            fingerprints={(task, "easy"): b"f" * 32 for task in ("bf", "basic_arithmetic")},
        )
        stranger = Stranger(1, clock)
        bundle = stranger.bundle(*(stranger.group(index) for index in range(6)))
        tasks = ["bf" if place in (1, 4) else "basic_arithmetic" for place in range(6)]
        claimed = [AnnouncedGroup(task, "easy", 1, 2) for task in tasks]
        await here.look(stranger.announcement(bundle, claimed))
        ((_, request),) = here.transport.asked
        assert request.positions == (1, 4)

    simulate(scenario)


@pytest.mark.parametrize("on", [True, False])
def test_a_node_fetches_by_its_shares_where_it_is_steered(
    monkeypatch: pytest.MonkeyPatch, on: bool
) -> None:
    made: list[Preference] = []

    class Noted(Collector):
        def __init__(self, *, prefers: Preference, **given: Any) -> None:
            super().__init__(prefers=prefers, **given)
            made.append(prefers)

    monkeypatch.setattr("swarmnode.node.Collector", Noted)
    shares = "scheduling.static_weights=[1,0,0,0,0,0]"
    node = built(f"scheduling.steer_external={on}".lower(), "scheduling.kind=static", shares)
    asyncio.run(node.scheduler.weights())
    (prefers,) = made
    first, second = (task for task, _ in load_settings().tasks.pairs[:2])
    told = (prefers(first), prefers(second))
    assert told == (pytest.approx((0.9, 0.02)) if on else (1.0, 1.0))
