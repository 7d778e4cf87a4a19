"""Nodes on one local network: who finds whom when, what moves, and what strangers may cause."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Network

from swarmnode.clock import VirtualClock
from swarmnode.network.lan import ANSWER_SECONDS, DIALS_AT_ONCE, LAST_ASK_SECONDS, LOOK_SECONDS
from swarmnode.network.lan_messages import Language, service_type
from swarmnode.network.neighbours import TOLD_BY_HOST_MAX
from swarmproto import SwarmSecret
from tests.unit.lan_support import Air, Near, on_air, peer_id, place_of, until_connected
from tests.unit.network_made import SWARM
from tests.unit.network_time import SkewedClock, in_virtual_time


def test_two_that_start_at_once_and_one_that_comes_later_find_each_other() -> None:
    async def scenario(clock: VirtualClock) -> None:
        air = Air()
        one, two, late = (Near(air, number, clock) for number in (1, 2, 3))
        async with on_air(one, two):
            assert await until_connected(one, two, clock, 3) < 3
            assert await until_connected(two, one, clock, 3) < 3
            await asyncio.sleep(600)
            async with on_air(late):
                for other in (one, two):
                    assert await until_connected(late, other, clock, 3) < 3
            assert {late.peer_id, two.peer_id} <= set(one.connected)
        assert one.dialled[0] == f"/ip4/192.168.1.2/tcp/4002/p2p/{two.peer_id}"

    in_virtual_time(scenario)


def test_what_is_lost_on_the_air_comes_again_within_a_minute() -> None:
    async def scenario(clock: VirtualClock) -> None:
        air = Air(lost=True)
        one, two = Near(air, 1, clock), Near(air, 2, clock)
        async with on_air(one, two):
            await asyncio.sleep(1000)
            assert not one.connected
            air.lost = False
            assert await until_connected(one, two, clock, LAST_ASK_SECONDS + 2)

    in_virtual_time(scenario)


def test_swarms_on_one_network_stay_apart_and_a_private_one_tells_nothing_of_itself() -> None:
    async def scenario(clock: VirtualClock) -> None:
        air = Air()
        secret, other = SwarmSecret(bytes(32)), SwarmSecret(bytes([1] * 32))
        machines = [
            Near(air, 1, clock),
            Near(air, 2, clock, swarm=bytes(32)),
            Near(air, 3, clock, secret=secret),
            Near(air, 4, clock, secret=other),
        ]
        async with on_air(*machines):
            await asyncio.sleep(120)
        assert [each.dialled for each in machines] == [[]] * 4

    in_virtual_time(scenario)
    key = bytes(range(32))
    private = service_type(SWARM, SwarmSecret(key))
    assert private != service_type(SWARM, None)
    assert private == service_type(bytes(32), SwarmSecret(key)), "the id is not in it"


def test_a_machine_that_comes_to_another_network_listens_and_is_found_there() -> None:
    async def scenario(clock: VirtualClock) -> None:
        home, cafe = Air(), Air()
        laptop, at_home = Near(home, 1, clock), Near(home, 2, clock)
        in_cafe = Near(cafe, 9, clock)
        elsewhere = IPv4Network("10.5.0.0/16")
        in_cafe.present = [place_of(9, elsewhere)]
        in_cafe.premises.settle(())
        async with on_air(laptop, at_home, in_cafe):
            await until_connected(laptop, at_home, clock, 3)
            # One address that is gone, of one or of two, is no reason for another peer.
            laptop.present = []
            await asyncio.sleep(10 * LOOK_SECONDS)
            assert laptop.renewed == 0
            assert laptop.lan.told([])["error"] == "this machine is on no local network"
            laptop._air = cafe
            laptop.present = [place_of(1, elsewhere)]
            await until_connected(in_cafe, laptop, clock, 20)
        assert laptop.renewed == 1
        assert in_cafe.dialled[-1].startswith("/ip4/10.5.0.1/tcp/4001/")

    in_virtual_time(scenario)


def test_a_place_that_is_there_for_one_look_alone_is_no_move() -> None:
    async def scenario(clock: VirtualClock) -> None:
        machine = Near(Air(), 1, clock)
        before = machine.present
        async with on_air(machine):
            await asyncio.sleep(1)
            machine.present = [*before, place_of(2)]
            await asyncio.sleep(LOOK_SECONDS)
            machine.present = before
            await asyncio.sleep(10 * LOOK_SECONDS)
        assert machine.renewed == 0

    in_virtual_time(scenario)


def test_a_machine_that_has_slept_asks_at_once_again() -> None:
    async def scenario(clock: VirtualClock) -> None:
        air, own = Air(), SkewedClock(clock, 0.0)
        sleeper = Near(air, 1, own)
        async with on_air(sleeper):
            await asyncio.sleep(600)
            said = len(air.said)
            (link,) = air.links
            own._ahead_seconds = 3600.0
            await asyncio.sleep(LOOK_SECONDS + 1)
            assert len(air.said) >= said + 2, "a question and an answer"
            (after,) = air.links
            assert after is not link, "over a socket that knows of the sleep"

    in_virtual_time(scenario)


def test_an_interface_that_cannot_be_used_is_told_and_tried_again() -> None:
    async def scenario(clock: VirtualClock) -> None:
        air = Air()
        machine, other = Near(air, 1, clock), Near(air, 2, clock)
        machine.broken = "Permission denied"
        async with on_air(machine, other):
            await asyncio.sleep(60)
            assert machine.lan.told([])["error"] == "wlan0: Permission denied"
            assert machine.lan.told([])["addresses"] == []
            machine.broken = ""
            await until_connected(machine, other, clock, 10)
            told = machine.lan.told(machine.connected)
        assert (told["error"], told["connected"]) == ("", 1)
        assert told["addresses"] == ["192.168.1.1:4001"]

    in_virtual_time(scenario)


def test_who_asks_without_end_hears_one_answer_a_second() -> None:
    async def scenario(clock: VirtualClock) -> None:
        air = Air()
        machine = Near(air, 1, clock)
        asking = Language(service_type(SWARM, None), "f" * 16)
        async with on_air(machine):
            await asyncio.sleep(100)
            before = len(air.said)
            for _ in range(200):
                air.say("192.168.1.66", asking.question())
                await asyncio.sleep(0.05)
            own = [host for _, host, _ in air.said[before:]].count("192.168.1.1")
        assert 5 <= own <= 10 / ANSWER_SECONDS + 2

    in_virtual_time(scenario)


def test_only_the_address_that_a_message_came_from_is_dialled_and_never_ourselves() -> None:
    async def scenario(clock: VirtualClock) -> None:
        air = Air()
        machine = Near(air, 1, clock)
        lying = Language(service_type(SWARM, None), "f" * 16)
        async with on_air(machine):
            await asyncio.sleep(1)
            air.say("192.168.1.66", lying.answer(peer_id(5), "8.8.8.8", 4321))
            air.say("192.168.1.66", lying.answer(machine.peer_id, "192.168.1.1", 4001))
            await asyncio.sleep(30)
        assert machine.dialled == [f"/ip4/192.168.1.66/tcp/4321/p2p/{peer_id(5)}"]

    in_virtual_time(scenario)


def test_a_flood_of_made_up_nodes_keeps_nobody_from_being_found() -> None:
    async def scenario(clock: VirtualClock) -> None:
        air = Air()
        machine, honest = Near(air, 1, clock), Near(air, 2, clock)
        machine.refuses = {peer_id(number) for number in range(100, 200)}
        lying = Language(service_type(SWARM, None), "f" * 16)
        made_up = [
            lying.answer(each, "192.168.1.66", 1 + number)
            for number, each in enumerate(sorted(machine.refuses))
        ]

        async def flood() -> None:
            while True:
                for message in made_up:
                    air.say("192.168.1.66", message)
                await asyncio.sleep(0.2)

        async with on_air(machine):
            flooding = asyncio.ensure_future(flood())
            await asyncio.sleep(120)
            dialled = len(machine.dialled)
            assert dialled <= 120 / 0.5 * DIALS_AT_ONCE
            async with on_air(honest):
                assert await until_connected(machine, honest, clock, 5) < 5
            flooding.cancel()
        assert machine.lan.told([])["counts"]["crowded_out"] > 100
        assert len(machine.lan.neighbours._told) <= TOLD_BY_HOST_MAX

    in_virtual_time(scenario)
