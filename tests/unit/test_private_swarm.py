"""A private swarm among others: members find each other, outsiders hear and learn nothing."""

from __future__ import annotations

import asyncio
import random
from itertools import combinations
from pathlib import Path

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.network.order import NetworkOrder
from swarmnode.network.peer import PeerUnreachable
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.sealing import STRANGER_SECONDS, SealedPeer, Sealing
from swarmnode.network.swarm_file import swarm_file
from swarmproto import (
    DISCOVER_PROTOCOL,
    FETCH_PROTOCOL,
    OFFER_PROTOCOL,
    REQUEST_BYTES_MAX,
    SWARM_PROTOCOL,
    DiscoverRequest,
    Exchange,
    FetchRequest,
    OfferRequest,
    SwarmRequest,
    SwarmSecret,
    bundle_id,
    encode_discover_request,
    encode_fetch_request,
    encode_offer_request,
    encode_swarm_request,
    public_key_of,
    swarm_id,
)
from tests.unit.network_fake import FakePeer, FakeWorld
from tests.unit.network_made import (
    RULES,
    RULES_BYTES,
    SWARM,
    announcement,
    bundle,
    private_key,
)
from tests.unit.network_members import Fake, Members, address, members, peer_id
from tests.unit.network_time import FixedClock, in_virtual_time

KEY = bytes(range(100, 132))
SECRET = SwarmSecret(KEY)
PRIVATE = swarm_id(RULES, SECRET)
PROTOCOLS = (
    DISCOVER_PROTOCOL,
    FETCH_PROTOCOL,
    OFFER_PROTOCOL,
    SWARM_PROTOCOL,
    "/swarmnode/dial-back/1",
)
OTHER_SECRET = SwarmSecret(bytes(32))
OUTSIDERS = {4: None, 5: OTHER_SECRET}
"""One with the same rules in public, one with another key; both know a member's address."""


async def mixed(fake: Fake, joining: Members) -> None:
    """Members 1 to 3, and the outsiders, all of whom are connected to member 1."""
    for number in (1, 2, 3):
        await joining.join(number, 1, secret=SECRET)
    for number, secret in OUTSIDERS.items():
        await joining.join(number, 1, secret=secret)
    await asyncio.sleep(5)
    # Everybody to everybody, whatever membership says.
    for one, other in combinations((1, 2, 3, 4, 5), 2):
        fake.world.connect(fake.peer(one), address(other))


def test_members_train_on_each_others_bundles_and_outsiders_hear_of_nobody() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await mixed(fake, joining)
            made = {number: await fake.publish(number) for number in (2, 3, *OUTSIDERS)}
            heard: dict[int, set[bytes]] = {number: set() for number in (1, 2, 3, 4, 5)}
            for _ in range(60):
                await asyncio.sleep(4)
                for number, found in heard.items():
                    found |= await fake.found(number)
            keys = {number: public_key_of(private_key(number)) for number in made}
            assert heard[2] == {keys[3]}
            assert heard[3] == {keys[2]}
            assert heard[1] == {keys[2], keys[3]}
            assert heard[4] == heard[5] == set()
            answer = await fake.fetch(3, address(2), made[2])
            assert answer.groups == tuple(enumerate(made[2].group_bytes))
            for number in OUTSIDERS:
                assert fake.health(fake.members[number])["state"] == "connected"
                assert fake.health(fake.members[number])["restarts"] == 0
            health = fake.health(fake.members[1])
            assert (health["peers"], health["strangers"]) == (4, 2)
            assert fake.health(fake.members[4])["strangers"] == 0, "a public swarm has none"
            unopened = health["unopened"]
            assert unopened[f"{DISCOVER_PROTOCOL}/request/seal"] > 0
            assert fake.members[1].serving.counts["discover/ok"] > 0

    in_virtual_time(scenario)


def test_nothing_that_leaves_a_member_shows_a_word_of_what_it_says() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2, 3):
                await joining.join(number, 1, secret=SECRET)
            fake.world.undialable.add(peer_id(4))
            await joining.join(4, 1, secret=SECRET, assumed=False)
            await asyncio.sleep(30)
            made = await fake.publish(2)
            await fake.publish(4)
            for _ in range(20):
                await asyncio.sleep(4)
                assert await fake.found(3)
            await fake.fetch(3, address(2), made)
            member = fake.members[3]
            file = await swarm_file(
                member.peer, member.company.connect, PRIVATE, address(1), SECRET
            )
            assert file.rules == RULES_BYTES
            assert sum(name.startswith("offer") for name in fake.members[1].serving.counts) > 0
            words = [
                *(PRIVATE, SWARM, KEY, RULES_BYTES, bundle_id(made.header_bytes)),
                *(b"2 + 0 =", b"basic_arithmetic", b"swarm", b"announcements", b"/ip4/", b"SWN"),
                *(public_key_of(private_key(number)) for number in (2, 4)),
            ]
            sent = [*fake.world.sent, *(f"{key} {sub}".encode() for key, sub in fake.world.stored)]
            sent += [key.encode() for key in fake.world.read]
            assert len(sent) > 100
            for word in words:
                for form in (word, word.hex().encode()):
                    assert not [each for each in sent if form in each], word
            subkeys = [subkey for _, subkey in fake.world.stored]
            assert len(set(subkeys)) == len(set(fake.world.stored)), "none is seen at two places"

    in_virtual_time(scenario)


def refused_requests() -> dict[str, bytes]:
    made = bundle(private_key(4))
    announced = announcement(private_key(4), made)
    return {
        "discover": encode_discover_request(DiscoverRequest(PRIVATE, 8)),
        "fetch": encode_fetch_request(FetchRequest(PRIVATE, bundle_id(made.header_bytes), (0,))),
        "offer": encode_offer_request(OfferRequest(announced, made.header_bytes, made.group_bytes)),
        "swarm": encode_swarm_request(SwarmRequest(PRIVATE)),
        "nothing": b"",
        "noise": random.Random(0).randbytes(200),
        "another key's": OTHER_SECRET.seal_request(
            Exchange(DISCOVER_PROTOCOL, peer_id(4), peer_id(1)),
            encode_discover_request(DiscoverRequest(PRIVATE, 8)),
        ),
    }


def test_whatever_an_outsider_asks_it_gets_the_same_empty_answer_and_is_counted() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2):
                await joining.join(number, 1, secret=SECRET)
            await asyncio.sleep(5)
            await fake.publish(2)
            outsider = FakePeer(fake.world, private_key(4), 4004, True)
            assert await outsider.connect(address(1))
            asked = refused_requests()
            for protocol in PROTOCOLS:
                for request in asked.values():
                    handler, limit = fake.peer(1).handlers[protocol]
                    if len(request) <= limit:
                        assert await handler(outsider.peer_id, request) == b""
            counts = fake.health(fake.members[1])["unopened"]
            assert set(counts) == {f"{protocol}/request/seal" for protocol in PROTOCOLS}
            assert counts[f"{SWARM_PROTOCOL}/request/seal"] == len(asked)
            assert not fake.members[1].shelf.bytes_held("offered")

    in_virtual_time(scenario)


def test_what_a_member_asked_one_peer_is_of_no_use_at_another() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            for number in (1, 2):
                await joining.join(number, 1, secret=SECRET)
            await asyncio.sleep(5)
            await fake.publish(2)
            heard: list[bytes] = []

            async def listens(_peer: str, request: bytes) -> bytes:
                heard.append(request)
                return b""

            thief = FakePeer(fake.world, private_key(4), 4004, True)
            thief.serve(DISCOVER_PROTOCOL, listens, REQUEST_BYTES_MAX + 28)
            await thief.connect(address(1))
            await thief.connect(address(2))
            await fake.until(lambda: len(heard) >= 2, 600)
            for request in heard:
                for number in (1, 2):
                    answer = await thief.call(
                        peer_id(number), DISCOVER_PROTOCOL, request, 10**6, 5.0
                    )
                    assert answer == b""

    in_virtual_time(scenario)


def test_a_stranger_is_not_asked_again_for_a_minute_nor_named_as_a_holder() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await joining.join(1, secret=SECRET)
            await joining.join(4)
            fake.world.undialable.add(peer_id(2))
            hidden = await joining.join(2, 1, 4, secret=SECRET, assumed=False)
            sealing = hidden.sealing
            assert sealing
            await fake.until(lambda: sealing.is_stranger(peer_id(4)), 60)
            assert address(4) not in hidden.holders()
            assert address(1) in hidden.holders()
            with pytest.raises(PeerUnreachable, match="not an address that we dial"):
                await hidden.fetch(address(4), b"")
            assert not sealing.is_stranger(peer_id(1))

    in_virtual_time(scenario)


def test_a_stranger_that_turns_out_to_be_a_member_is_one_at_once_and_any_is_forgotten() -> None:
    clock = FixedClock()
    sealing, exchange = Sealing(SECRET, clock), Exchange(FETCH_PROTOCOL, "asker", "us")
    assert sealing.opened_request(exchange, b"nonsense") is None
    assert sealing.is_stranger("asker")
    assert sealing.opened_request(exchange, SECRET.seal_request(exchange, b"hello")) == b"hello"
    assert not sealing.is_stranger("asker")
    sealing.opened_request(exchange, b"nonsense")
    clock.seconds += STRANGER_SECONDS
    assert not sealing.is_stranger("asker")


def test_a_record_that_lies_anywhere_but_where_it_was_put_is_not_seen() -> None:
    async def scenario(clock: VirtualClock) -> None:
        world = FakeWorld(clock.now)
        inner = FakePeer(world, private_key(1), 4001, True)
        sealing = Sealing(SECRET, clock)
        peer, until = SealedPeer(inner, sealing), clock.now() + 60
        await peer.store("key", "author", b"announcement", until)
        ((place, records),) = inner.records.items()
        ((subkey, record),) = records.items()
        assert await peer.get(["key", "other"]) == {
            "key": {subkey: b"announcement"},
            "other": {},
        }
        inner.records = {place: {"another": record}, SECRET.place("other"): {subkey: record}}
        assert await peer.get(["key", "other"]) == {"key": {}, "other": {}}
        assert sealing.counts == {"record/seal": 2}

    in_virtual_time(scenario)


def test_the_rules_of_a_private_swarm_are_told_to_members_alone() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async with members(clock) as (fake, joining):
            await mixed(fake, joining)
            for number, secret in OUTSIDERS.items():
                outsider = fake.members[number]
                with pytest.raises(PeerUnreachable) as refused:
                    await swarm_file(
                        outsider.peer, outsider.company.connect, PRIVATE, address(1), secret
                    )
                assert "\n" not in str(refused.value)
            member = fake.members[2]
            with pytest.raises(PeerUnreachable, match="does not know that swarm"):
                await swarm_file(member.peer, member.company.connect, SWARM, address(1), SECRET)

    in_virtual_time(scenario)


def test_no_order_shows_a_key_when_it_is_printed(tmp_path: Path) -> None:
    order = NetworkOrder(private_key(7), PRIVATE, RULES_BYTES, "folder", swarm_key=KEY)
    sealing = Sealing(SECRET, FixedClock())
    peer_order = PeerOrder(private_key(7), PRIVATE, tmp_path, sealing=sealing)
    for shown in (repr(order), repr(peer_order), repr(sealing), repr(SECRET)):
        for key in (KEY, private_key(7)):
            assert repr(key)[2:-1] not in shown
            assert key.hex() not in shown
