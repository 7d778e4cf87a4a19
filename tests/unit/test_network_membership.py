"""Members of a swarm in virtual time, over peers that are faked: finding, fetching, surviving."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.network.peer import PeerUnreachable
from swarmnode.network.shards import bucket_of
from swarmproto import (
    bundle_id,
    public_key_of,
)
from tests.unit.network_fake import FakePeer
from tests.unit.network_made import (
    NOW,
    bundle,
    private_key,
)
from tests.unit.network_members import address, members, peer_id
from tests.unit.network_time import SkewedClock, in_virtual_time


def test_members_find_each_others_bundles_and_fetch_them_from_their_publisher() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2, 3):
                await joining.join(number, 1)
            await asyncio.sleep(5)
            made = await fake.publish(2)
            assert await fake.found(3) == {public_key_of(private_key(2))}
            response = await fake.fetch(3, address(2), made)
            assert response.groups == tuple(enumerate(made.group_bytes))
            assert fake.health(fake.members[2])["last_acknowledgement_seconds"] < 5
            assert await fake.found(2) == set(), "our own are no news"

    in_virtual_time(scenario)


def test_peers_that_are_connected_tell_what_the_dht_has_lost() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2, 3):
                await joining.join(number, 1)
            await asyncio.sleep(5)
            await fake.publish(2)
            await asyncio.sleep(35)  # the bootstrap peer looks by itself
            for number in (1, 2, 3):
                fake.peer(number).records.clear()
            found: set[bytes] = set()
            for _ in range(4):
                await asyncio.sleep(4)
                found |= await fake.found(3)
            assert found == {public_key_of(private_key(2))}

    in_virtual_time(scenario)


def test_an_announcement_stays_in_the_buckets_of_its_life_and_no_longer() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2):
                await joining.join(number, 1)
            await asyncio.sleep(5)
            await fake.publish(2, life=150.0)
            await asyncio.sleep(600)
            buckets = {int(key.split("/")[2]) - bucket_of(NOW) for key, _ in fake.world.stored}
            assert buckets == {0, 1, 2}
            assert len(fake.world.stored) == 3, fake.world.stored

    in_virtual_time(scenario)


def test_what_nobody_acknowledged_is_stored_again_until_somebody_does() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            alone = await joining.join(2, 1)
            await fake.publish(2)
            await asyncio.sleep(20)
            assert fake.health(alone)["state"] == "alone"
            assert alone.rendezvous.last_acknowledged is None
            await joining.join(1)
            await fake.until(lambda: alone.rendezvous.last_acknowledged is not None, 90)

    in_virtual_time(scenario)


def test_many_that_start_at_once_become_one_component() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.down_addresses.add(address(1))
            # Two that know one another, and two others; all know the bootstrap, which is down.
            for number, other in ((2, 3), (3, 2), (4, 5), (5, 4)):
                await joining.join(number, 1, saved=(other,))
            await joining.join(1)
            await asyncio.sleep(30)
            assert [fake.links(number) for number in (2, 4)] == [1, 1]
            fake.world.down_addresses.clear()
            await fake.until(lambda: fake.links(1) == 4, 61)

    in_virtual_time(scenario)


def test_a_dead_peer_is_built_again_with_its_handlers_records_and_announcement() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2, 3):
                await joining.join(number, 1)
            await asyncio.sleep(5)
            made = await fake.publish(2)
            before, held = fake.peer(2), dict(fake.peer(2).records)
            stored = len(fake.world.stored)
            before.kill()
            await fake.until(lambda: fake.health(fake.members[2])["restarts"] == 1, 1)
            await fake.until(lambda: fake.health(fake.members[2])["state"] == "connected", 5)
            after = fake.peer(2)
            assert after is not before
            assert before.closed
            assert after.records == held
            await fake.until(lambda: len(fake.world.stored) > stored, 5)
            assert (await fake.fetch(3, address(2), made)).status == "ok"

    in_virtual_time(scenario)


def test_building_is_tried_again_for_ever_with_growing_waits_and_says_why() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            member = await joining.join(1)
            build, tries = member.peer._build, []

            async def failing(server: bool) -> FakePeer:
                tries.append(clock.now())
                if len(tries) < 10:
                    raise OSError("no p2pd today\nand more")
                made = await build(server)
                assert isinstance(made, FakePeer)
                return made

            member.peer._build = failing
            fake.peer(1).kill()
            await fake.until(lambda: len(tries) == 3, 60)
            assert fake.health(member)["state"] == "down"
            assert fake.health(member)["error"] == "OSError: no p2pd today"
            await fake.until(lambda: fake.health(member)["state"] == "alone", 600)
            waits = [round(b - a) for a, b in pairwise(tries)]
            assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60]
            assert fake.health(member)["error"] == ""

    in_virtual_time(scenario)


def test_a_node_that_nobody_can_dial_supplies_its_bundle_through_others() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.undialable.add(peer_id(2))
            for number in (1, 3):
                await joining.join(number, 1)
            hidden = await joining.join(2, 1, assumed=False)
            await fake.until(lambda: hidden.company.reachable is False, 60)
            assert not fake.peer(2).server
            assert address(1) in hidden.holders()
            assert address(2) not in hidden.holders()
            made = await fake.publish(2)
            assert await fake.found(3) == {public_key_of(private_key(2))}
            assert (await fake.fetch(3, address(1), made)).groups == tuple(
                enumerate(made.group_bytes)
            )
            with pytest.raises(PeerUnreachable):
                await fake.fetch(3, address(2), made)

    in_virtual_time(scenario)


def test_a_client_becomes_a_server_once_a_peer_has_dialled_it() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await joining.join(1)
            member = await joining.join(2, 1, assumed=False)
            assert not fake.peer(2).server
            assert member.holders() == []
            await fake.until(lambda: fake.peer(2).server, 20)
            await fake.until(lambda: fake.health(member)["state"] == "connected", 20)
            assert member.holders() == [address(2)]
            await asyncio.sleep(600)
            assert fake.health(member)["restarts"] == 1

    in_virtual_time(scenario)


def test_who_is_on_our_local_network_does_not_vouch_for_us_to_others() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await joining.join(1, dials_back=False)
            fake.peer(1).addresses = [address(1).replace("127.0.0.1", "192.0.2.1")]
            await joining.join(3)
            member = await joining.join(2, 1, 3, assumed=False)
            await fake.until(lambda: member.company.reachable_nearby, 60)
            await fake.until(lambda: member.company.reachable is False, 60)
            assert not fake.peer(2).server
            holders = member.holders()
            assert holders[-1] == address(2), "those on our network can come for it"
            assert set(holders[:-1]) <= {address(1), address(3)}
            assert len(holders) == 3

    in_virtual_time(scenario)


def test_one_who_could_not_dial_us_is_not_believed_alone() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await joining.join(1)
            member = await joining.join(2, 1)
            fake.world.undialable.add(peer_id(2))
            await asyncio.sleep(60)
            assert member.company.reachable is False
            assert fake.peer(2).server
            for number in (3, 4):
                await joining.join(number, 1)
                fake.world.connect(fake.peer(2), address(number))
            await fake.until(lambda: not fake.peer(2).server, 120)

    in_virtual_time(scenario)


def test_whoever_is_heard_of_is_dialled_so_that_the_bootstrap_peer_may_die() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2, 3, 4):
                await joining.join(number, 1)
            await asyncio.sleep(5)
            for number in (2, 3, 4):
                await fake.publish(number)
            for _ in range(20):
                await asyncio.sleep(2)
                for number in (2, 3, 4):
                    await fake.found(number)
            await fake.until(lambda: all(fake.links(number) == 3 for number in (2, 3, 4)), 30)
            fake.world.down_addresses.add(address(1))
            fake.peer(1).kill()
            made = await fake.publish(2, sequence=2)
            bundles: set[bytes] = set()
            for _ in range(8):
                await asyncio.sleep(2)
                entries = await fake.members[3].discover(16)
                bundles |= {entry.announcement.bundle_id for entry in entries}
            assert bundle_id(made.header_bytes) in bundles
            assert (await fake.fetch(3, address(2), made)).status == "ok"
            saved = set(fake.members[3].saved_peers())
            assert {address(2), address(4)} & saved

    in_virtual_time(scenario)


def test_a_node_whose_bootstrap_is_gone_rejoins_through_saved_peers() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await joining.join(2)
            member = await joining.join(3, 1, saved=(2,))
            await fake.until(lambda: fake.health(member)["state"] == "connected", 10)
            (bootstrap,) = fake.health(member)["bootstrap"]
            assert bootstrap["address"] == address(1)
            assert not bootstrap["connected"]
            assert bootstrap["failures"] >= 1
            # Its wait doubles, and never exceeds a minute.
            assert 0.0 <= fake.health(member)["next_attempt_seconds"] <= 60.0
            assert fake.health(fake.members[2])["next_attempt_seconds"] is None, "it has none"
            assert fake.health(member)["shard_level"] == 0, "a swarm of two"

    in_virtual_time(scenario)


def test_a_silent_peer_costs_no_more_than_its_time_limit() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2):
                await joining.join(number, 1)
            await asyncio.sleep(5)
            made = await fake.publish(1)
            fake.world.silent.add(peer_id(1))
            begun = clock.now()
            with pytest.raises(PeerUnreachable):
                await fake.fetch(2, address(1), made)
            assert clock.now() - begun <= 10
            begun = clock.now()
            await fake.found(2)
            assert clock.now() - begun <= 2

    in_virtual_time(scenario)


def test_a_bad_peer_is_neither_served_nor_asked_and_hung_up_on() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2):
                await joining.join(number, 1)
            await asyncio.sleep(5)
            made = await fake.publish(2)
            await fake.members[2].bad_peer(peer_id(1), 3600)
            with pytest.raises(PeerUnreachable):
                await fake.fetch(2, address(1), made)
            await asyncio.sleep(3)
            assert (await fake.fetch(1, address(2), made)).status == "busy"

    in_virtual_time(scenario)


def test_strangers_addresses_do_not_lead_into_private_networks_or_to_ourselves() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await joining.join(1)
            member = await joining.join(2, 1)
            await joining.join(3)
            await asyncio.sleep(5)
            made = bundle(private_key(1))
            router = address(3).replace("127.0.0.1", "192.168.1.1")
            relayed = router.replace(peer_id(3), f"{peer_id(1)}/p2p-circuit/p2p/{peer_id(3)}")
            bare = address(3).partition("/p2p/")[0]
            for holder in (address(2), router, relayed, bare, "nonsense", ""):
                with pytest.raises(PeerUnreachable, match="not an address that we dial"):
                    await fake.fetch(2, holder, made)
                member.good_peer(holder)
            assert not member.saved.addresses
            dialled = [each for _, who, each in fake.world.dials if who == peer_id(2)]
            assert set(dialled) == {address(1)}
            member.good_peer(address(3))
            await fake.fetch(2, address(3), made)
            assert member.saved.addresses == (address(3),)

    in_virtual_time(scenario)


def test_the_word_of_a_stranger_leads_to_no_private_network_once_one_came_from_outside() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 3, 4):
                await joining.join(number)
            fake.peer(4).addresses = [address(4).replace("127.0.0.1", "8.8.8.8")]
            member = await joining.join(2, 1)
            await asyncio.sleep(5)
            assert member.errands.may_dial(address(3))
            fake.world.connect(fake.peer(4), address(2))
            await asyncio.sleep(5)
            made = await fake.publish(1)
            await fake.peer(4).disconnect(peer_id(2))
            await asyncio.sleep(5)
            with pytest.raises(PeerUnreachable, match="not an address that we dial"):
                await fake.fetch(2, address(3), made)
            assert (await fake.fetch(2, address(1), made)).status == "ok", "connected as it is"

    in_virtual_time(scenario)


def test_a_node_with_a_wrong_clock_is_told_and_nobody_else_is() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2, 3):
                await joining.join(number, 1)
            await joining.join(4, 1, clock=SkewedClock(clock, 600.0))
            for number in (2, 3):
                fake.world.connect(fake.peer(4), address(number))
            for sequence in range(1, 8):
                for number in (1, 2, 3):
                    await fake.publish(number, sequence=sequence)
                for _ in range(5):
                    await asyncio.sleep(4)
                    for number in (1, 2, 3, 4):
                        await fake.found(number)
            offset = fake.health(fake.members[4])["clock_offset_seconds"]
            assert -630 < offset < -595
            for number in (1, 2, 3):
                own = fake.health(fake.members[number])["clock_offset_seconds"]
                assert own is None or abs(own) < 30

    in_virtual_time(scenario)


def test_traffic_is_paced_however_often_the_daemon_looks() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2, 3):
                await joining.join(number, 1)
            await asyncio.sleep(5)
            for number in (1, 2):
                await fake.publish(number)
            for _ in range(600):
                await asyncio.sleep(0.1)
                await fake.found(3)
            looks = fake.members[3].rendezvous.counts
            assert looks["dht/looks"] <= 5
            assert looks["peers/looks"] <= 16

    in_virtual_time(scenario)
