"""Gossip beside the DHT and instead of it, over peers that are faked, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.network.gossip import (
    FAULTS_MAX,
    HEARD,
    JOIN_BELOW,
    LEAVE_FROM,
    REFUSED_SECONDS,
    REST_SECONDS,
    Gossip,
    topic_of,
)
from swarmnode.network.membership import Membership
from swarmproto import (
    SWARM_PROTOCOL,
    SwarmRequest,
    SwarmSecret,
    decode_swarm_response,
    encode_swarm_request,
    public_key_of,
)
from tests.unit.network_made import SWARM, announcement, bundle, private_key
from tests.unit.network_members import Fake, Members, address, members, peer_id
from tests.unit.network_time import in_virtual_time

TOPIC = topic_of(SWARM)
ROUND_SECONDS = 10.0


async def joined(joining: Members, count: int) -> list[Membership]:
    """So many members, connected in a row, who listen."""
    found = [await joining.join(1)]
    found += [await joining.join(number, number - 1) for number in range(2, count + 1)]
    await asyncio.sleep(5)
    return found


def knows(member: Membership, number: int) -> bool:
    return public_key_of(private_key(number)) in member.known.authors()


@pytest.mark.parametrize("has_dht", [True, False])
def test_everybody_hears_of_an_announcement_at_once_through_others(has_dht: bool) -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = has_dht
            everybody = await joined(joining, 4)
            for link in (1, 2):  # a row has no short cuts
                fake.peer(4).links.discard(peer_id(link))
                fake.peer(link).links.discard(peer_id(4))
            await fake.publish(1)
            assert all(knows(member, 1) for member in everybody)
            assert fake.health(everybody[0])["last_acknowledgement_seconds"] is not None
            assert bool(fake.world.stored) == has_dht

    in_virtual_time(scenario)


def test_without_a_dht_nothing_is_looked_for_there_and_newcomers_ask_their_peers() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = False
            await joined(joining, 2)
            await fake.publish(1)
            late = await joining.join(3, 2)
            await asyncio.sleep(5)
            assert not knows(late, 1)
            assert await fake.found(3) == {public_key_of(private_key(1))}
            assert not fake.world.read
            assert "dht/looks" not in fake.health(late)["looks"]

    in_virtual_time(scenario)


def test_what_gossip_lost_is_found_by_asking_within_a_round() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = False
            everybody = await joined(joining, 8)
            topics, fake.peer(8).topics = fake.peer(8).topics, {}
            for number in range(1, 8):
                await fake.publish(number)
            fake.peer(8).topics = topics
            assert not any(knows(everybody[7], number) for number in range(1, 8))
            begun, found = clock.now(), set[bytes]()
            while found != {public_key_of(private_key(number)) for number in range(1, 8)}:
                assert clock.now() - begun < ROUND_SECONDS
                found |= await fake.found(8)
                await asyncio.sleep(1)

    in_virtual_time(scenario)


def test_a_newcomer_with_one_address_learns_of_everybody_without_a_dht() -> None:
    """Each knew but one other at its start, as the newcomer does, and the first one is gone."""
    count = 15

    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = False
            await joined(joining, count)
            for round_number in range(1, 4):
                for number in range(1, count + 1):
                    await fake.publish(number, sequence=round_number)
                await asyncio.sleep(ROUND_SECONDS)
            fake.peer(1).kill()
            late = await joining.join(count + 1, count)
            begun = clock.now()
            while not late.known.authors():
                assert clock.now() - begun < 4, "it asks as soon as there is somebody to ask"
                await fake.found(count + 1)
                await asyncio.sleep(1)
            while not all(knows(late, number) for number in range(2, count + 1)):
                assert clock.now() - begun < 3 * ROUND_SECONDS
                await fake.found(count + 1)
                await asyncio.sleep(1)
            await fake.until(lambda: fake.links(count + 1) >= count - 1, 2 * ROUND_SECONDS)
            # That is kept for a start at which the one address is of no use.
            assert len(late.saved_peers()) >= count - 1

    in_virtual_time(scenario)


def test_those_who_know_one_peer_find_each_other_though_nobody_says_anything() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = False
            await joining.join(1)
            for number in range(2, 9):
                await joining.join(number, 1)
            took = await fake.until(
                lambda: all(fake.links(number) >= 5 for number in range(1, 9)), 90
            )
            assert took > 2, "not at once"
            fake.world.undialable.add(peer_id(9))
            await joining.join(9, 1)
            await asyncio.sleep(60)
            dialable = {address(number) for number in range(1, 9)}
            assert told_by(fake, 1) == dialable, "who can be dialled"

    in_virtual_time(scenario)


def test_nobody_is_told_of_a_private_network_once_one_came_from_outside() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = False
            member = await joining.join(1)
            for number in (2, 3):
                await joining.join(number, 1)
            await joining.join(4)
            fake.peer(4).addresses = [address(4).replace("127.0.0.1", "8.8.8.8")]
            member.good_peer(address(3))
            await asyncio.sleep(60)
            assert told_by(fake, 1) == {address(number) for number in range(1, 4)}
            fake.world.connect(fake.peer(4), address(1))
            await asyncio.sleep(60)
            others = told_by(fake, 1) - {address(1)}
            assert others == set(fake.peer(4).addresses), "who can be dialled on the internet"

    in_virtual_time(scenario)


def told_by(fake: Fake, number: int) -> set[str]:
    """Where somebody who asks a member is told to begin."""
    asked = encode_swarm_request(SwarmRequest(SWARM))
    answer = fake.members[number].serving.handlers[SWARM_PROTOCOL](peer_id(3), asked)
    return set(decode_swarm_response(answer).bootstrap)


def test_with_a_dht_nobody_is_asked_for_addresses() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (_, joining):
            one = await joining.join(1)
            await joining.join(2, 1)
            await asyncio.sleep(120)
            assert not any(key.startswith("swarm/") for key in one.serving.counts)

    in_virtual_time(scenario)


def test_an_announcement_that_nobody_was_there_to_hear_is_told_again_until_somebody_is() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = False
            alone = await joining.join(1)
            await asyncio.sleep(2)
            await fake.publish(1)
            assert fake.health(alone)["last_acknowledgement_seconds"] is None
            listener = await joining.join(2, 1)
            await asyncio.sleep(10)
            assert knows(listener, 1)
            told = alone.rendezvous.counts["told"]
            await asyncio.sleep(120)
            assert alone.rendezvous.counts["told"] == told == 1

    in_virtual_time(scenario)


def bad(kind: str) -> bytes:
    """What peer 3 may not publish."""
    own = private_key(3)
    match kind:
        case "junk":
            return b"junk"
        case "too long":
            return bytes(1500)
        case "another's":
            return announcement(private_key(2), bundle(private_key(2)))
        case _:
            return announcement(own, bundle(own), swarm=bytes(32))


@pytest.mark.parametrize("kind", ["junk", "too long", "another's", "of another swarm"])
def test_who_publishes_what_is_no_announcement_of_its_own_is_hung_up_on(kind: str) -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (_fake, joining):
            member, *_ = await joined(joining, 4)
            assert member.gossip.listening
            for _ in range(FAULTS_MAX):
                assert not member.gossip.heard(peer_id(3), bad(kind))
            await asyncio.sleep(2)
            assert peer_id(3) not in member.peer.connections
            assert member.doors.refuses(peer_id(3))
            counts = member.gossip.counts.copy()
            assert not member.gossip.heard(peer_id(3), bad(kind))
            assert member.gossip.counts - counts == {"refused": 1}
            own = announcement(private_key(4), bundle(private_key(4)), created=clock.now())
            assert member.gossip.heard(peer_id(4), own), "nobody else has to pay for it"
            await asyncio.sleep(REFUSED_SECONDS)
            own = announcement(private_key(3), bundle(private_key(3)), created=clock.now())
            assert member.gossip.heard(peer_id(3), own)

    in_virtual_time(scenario)


def test_an_announcement_that_comes_late_or_early_is_nobodys_fault() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (_fake, joining):
            member, *_ = await joined(joining, 2)
            for index in range(2 * FAULTS_MAX):
                key, off = private_key(2), 600.0 if index % 2 else -1000.0
                own = announcement(key, bundle(key, sequence=index + 1), created=clock.now() + off)
                assert not member.gossip.heard(peer_id(2), own)
            assert member.gossip.counts == {"untimely": 2 * FAULTS_MAX}
            assert not member.doors.refuses(peer_id(2))

    in_virtual_time(scenario)


def test_one_publisher_has_a_share_and_no_more() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (_fake, joining):
            member, *_ = await joined(joining, 2)
            key = private_key(2)
            for index in range(100):
                own = announcement(key, bundle(key, sequence=index + 1), created=clock.now())
                member.gossip.heard(peer_id(2), own)
            assert 20 <= member.gossip.counts["new"] <= 40
            assert member.gossip.counts["busy"] == 100 - member.gossip.counts["new"]

    in_virtual_time(scenario)


def test_a_flood_by_many_empties_the_topic_for_a_minute() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            member, *_ = await joined(joining, 2)
            for index in range(int(HEARD.burst) + 2000):
                member.gossip.heard(f"publisher {index}", b"junk")
            await asyncio.sleep(2)
            assert not member.gossip.listening
            assert TOPIC not in fake.peer(1).topics
            await asyncio.sleep(REST_SECONDS + 1)
            assert TOPIC in fake.peer(1).topics
            assert member.gossip.counts["rests"] == 1

    in_virtual_time(scenario)


@pytest.mark.parametrize("has_dht", [True, False])
def test_in_a_large_swarm_those_with_a_dht_leave_the_topic(has_dht: bool) -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = has_dht
            member, *_ = await joined(joining, 2)
            size = 10.0
            gossip = Gossip(
                swarm_id=SWARM,
                peer=member.peer,
                known=member.known,
                doors=member.doors,
                clock=clock,
                size=lambda: size,
            )
            running = asyncio.ensure_future(gossip.run())
            listened: list[bool] = []
            for now in (JOIN_BELOW, JOIN_BELOW - 1, LEAVE_FROM - 1, LEAVE_FROM, LEAVE_FROM - 1):
                size = now
                await asyncio.sleep(2)
                listened.append(gossip.listening)
            running.cancel()
            expected = [False, True, True, False, False] if has_dht else [True] * 5
            assert listened[1:] == expected[1:]

    in_virtual_time(scenario)


def test_a_new_peer_of_ours_listens_as_the_one_before_did() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await joined(joining, 2)
            before = fake.peer(1)
            before.kill()
            await asyncio.sleep(10)
            assert fake.peer(1) is not before
            assert TOPIC in fake.peer(1).topics

    in_virtual_time(scenario)


def test_a_private_swarms_gossip_opens_for_members_alone() -> None:
    async def scenario(clock: VirtualClock) -> None:
        secret = SwarmSecret(bytes(range(32)))
        async with members(clock) as (fake, joining):
            fake.world.has_dht = False
            first = await joining.join(1, secret=secret)
            second = await joining.join(2, 1, secret=secret)
            await asyncio.sleep(5)
            overheard: list[bytes] = []
            topic, opened = next(iter(fake.peer(2).topics.items()))

            def heard(origin: str, data: bytes) -> bool:
                overheard.append(data)
                return opened(origin, data)

            fake.peer(2).topics[topic] = heard
            await fake.publish(1)
            assert knows(second, 1)
            swarm = fake.swarm_of(first)
            assert swarm.hex() not in topic
            [sealed] = overheard
            assert public_key_of(private_key(1)) not in sealed
            assert not opened(peer_id(7), sealed), "bound to who published it"
            assert second.gossip.counts["new"] == 1
            assert second.gossip.counts["faulty"] == 1

    in_virtual_time(scenario)


def test_a_peer_without_a_dht_is_not_built_anew_because_others_can_dial_it() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            fake.world.has_dht = False
            await joining.join(1)
            member = await joining.join(2, 1, assumed=False)
            await asyncio.sleep(60)
            assert member.company.dialable
            assert member.peer.server
            assert member.peer.restarts == 0

    in_virtual_time(scenario)
