"""The rendezvous on its own: shards of a large swarm, and what strangers put where it looks."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swarmnode.clock import VirtualClock
from swarmnode.network.known import Known
from swarmnode.network.peer import PeerUnreachable
from swarmnode.network.rendezvous import ENOUGH_PEERS, Pace, Rendezvous
from swarmnode.network.shards import bucket_of, publishing_keys, subkey_of
from swarmproto import (
    DiscoverRequest,
    DiscoverResponse,
    decode_discover_request,
    encode_discover_response,
    public_key_of,
)
from tests.unit.network_made import NOW, SWARM, announcement, bundle, private_key
from tests.unit.network_time import in_virtual_time

OWN = private_key(255)


@dataclass
class Scripted:
    """A Swarm that says what a test wrote down."""

    records: dict[str, dict[str, bytes]] = field(default_factory=dict)
    answers: dict[str, bytes] = field(default_factory=dict)
    stored: list[str] = field(default_factory=list)
    read: list[Sequence[str]] = field(default_factory=list)
    asked: list[DiscoverRequest] = field(default_factory=list)
    acknowledging: int = 1
    has_dht: bool = True

    async def store(self, key: str, subkey: str, value: bytes, expires: float, /) -> int:
        self.stored.append(key)
        return self.acknowledging

    async def get(self, keys: Sequence[str], /) -> Mapping[str, Mapping[str, bytes]]:
        self.read.append(keys)
        return {key: self.records[key] for key in keys if key in self.records}

    async def call(
        self, peer_id: str, protocol: str, request: bytes, limit: int, seconds: float, /
    ) -> bytes:
        self.asked.append(decode_discover_request(request))
        if peer_id not in self.answers:
            raise PeerUnreachable("silent")
        if len(self.answers[peer_id]) > limit:
            raise PeerUnreachable("too long")
        return self.answers[peer_id]

    async def connected(self) -> Sequence[tuple[str, str]]:
        return [(peer_id, "") for peer_id in self.answers]

    def publish(self, number: int, *, level: int, bucket: int | None = None) -> None:
        key = private_key(number)
        bucket = bucket_of(NOW) if bucket is None else bucket
        data = announcement(key, bundle(key))
        for at in publishing_keys(SWARM, public_key_of(key), bucket, level):
            self.records.setdefault(at, {})[subkey_of(public_key_of(key))] = data


def rendezvous(swarm: Scripted, clock: VirtualClock, pace: Pace | None = None) -> Rendezvous:
    return Rendezvous(
        swarm_id=SWARM,
        public_key=public_key_of(OWN),
        peer=swarm,
        known=Known(SWARM, clock),
        clock=clock,
        rng=random.Random(1),
        pace=pace,
    )


def test_a_large_swarm_is_read_shard_by_shard_with_two_publishers_in_each() -> None:
    async def scenario(clock: VirtualClock) -> None:
        swarm = Scripted()
        for number in range(1, 129):
            swarm.publish(number, level=6)
        here = rendezvous(swarm, clock, Pace(dht_seconds=0.5))
        for bucket in range(5):  # four times a bucket is as fast as an estimate grows
            here.estimate.observe(bucket_of(NOW) - 5 + bucket, 6, 32)
        assert here.estimate.level == 6
        found: set[bytes] = set()
        largest = 0
        for _ in range(50):
            await asyncio.sleep(0.5)
            entries = await here.discover(64)
            found |= {entry.announcement.public_key for entry in entries}
        for keys in swarm.read:
            largest = max(largest, *(len(swarm.records.get(key, ())) for key in keys))
        assert len(found) > 40
        assert largest <= 12, "two a shard on average, and four in a parent"

    in_virtual_time(scenario)


def test_a_reader_one_level_off_finds_the_publishers_all_the_same() -> None:
    async def scenario(clock: VirtualClock) -> int:
        swarm = Scripted()
        for number in range(1, 17):
            swarm.publish(number, level=1)
        here = rendezvous(swarm, clock)
        return len(await here.discover(64))

    assert in_virtual_time(scenario) == 16


def test_an_empty_shard_leads_to_its_parent() -> None:
    async def scenario(clock: VirtualClock) -> int:
        swarm = Scripted()
        for number in range(1, 9):
            swarm.publish(number, level=0)
        here = rendezvous(swarm, clock)
        for bucket in range(4):
            here.estimate.observe(bucket_of(NOW) - 4 + bucket, 2, 32)
        assert here.estimate.level == 2
        found = await here.discover(64)
        assert [key.rpartition("/")[2] for key in swarm.read[-1]] == [""] * len(swarm.read[-1])
        return len(found)

    assert in_virtual_time(scenario) == 8


def test_an_announcement_is_stored_at_its_level_and_at_the_parents() -> None:
    async def scenario(clock: VirtualClock) -> list[str]:
        swarm = Scripted()
        here = rendezvous(swarm, clock)
        here.estimate.observe(bucket_of(NOW) - 1, 2, 32)
        adopted = here.adopt(announcement(OWN, bundle(OWN)))
        assert adopted is not None
        assert await here.announce(adopted)
        return swarm.stored

    stored = in_virtual_time(scenario)
    assert [len(key.rpartition("/")[2]) for key in stored] == [2, 1]


def test_what_lies_in_the_wrong_place_or_is_no_announcement_is_not_counted_as_a_publisher() -> None:
    async def scenario(clock: VirtualClock) -> Rendezvous:
        swarm = Scripted()
        last = bucket_of(NOW) - 1
        swarm.publish(1, level=0, bucket=last)  # its life begins a bucket later
        (at,) = publishing_keys(SWARM, public_key_of(OWN), last, 0)
        swarm.records[at] |= {str(number): bytes([number]) * 300 for number in range(200)}
        here = rendezvous(swarm, clock)
        await here.discover(64)
        return here

    here = in_virtual_time(scenario)
    assert here.estimate.value == 0
    assert here.counts["dht/new"] == 1


def test_hostile_answers_of_peers_are_counted_and_harm_nobody() -> None:
    async def scenario(clock: VirtualClock) -> Rendezvous:
        good = announcement(private_key(1), bundle(private_key(1)))
        swarm = Scripted(
            answers={
                "silent?": b"",
                "bomb": b"\xdd\xff\xff\xff\xff",
                "flood": b"x" * 100_000,
                "mixed": encode_discover_response(
                    DiscoverResponse((b"junk", good, good[:-1], good))
                ),
            }
        )
        here = rendezvous(swarm, clock)
        for _ in range(40):
            await asyncio.sleep(5)
            await here.discover(64)
        return here

    here = in_virtual_time(scenario)
    assert here.counts["peers/new"] == 1
    assert here.counts["peers/unreachable"] > 0
    assert here.counts["wire/truncated"] > 0


def test_with_company_the_dht_is_asked_more_seldom_than_peers() -> None:
    async def scenario(clock: VirtualClock) -> tuple[int, int]:
        nothing = encode_discover_response(DiscoverResponse(()))
        swarm = Scripted(answers={str(number): nothing for number in range(ENOUGH_PEERS)})
        here = rendezvous(swarm, clock)
        for _ in range(600):
            await asyncio.sleep(1)
            await here.discover(16)
        return len(swarm.read), len(swarm.asked)

    dht, peers = in_virtual_time(scenario)
    assert 0 < 2 * dht <= peers


def test_a_settled_node_sees_the_size_of_its_swarm_each_minute_at_one_shard_a_look() -> None:
    async def scenario(clock: VirtualClock) -> tuple[list[bool], Sequence[Sequence[str]]]:
        nothing = encode_discover_response(DiscoverResponse(()))
        swarm = Scripted(answers={str(number): nothing for number in range(ENOUGH_PEERS)})
        here, seen = rendezvous(swarm, clock), []
        for minute in range(-1, 10):
            for number in range(1, 21):
                swarm.publish(number, level=0, bucket=bucket_of(NOW) + minute)
        await here.discover(64)
        await asyncio.sleep(15)
        begun = len(swarm.read)
        for minute in range(1, 5):
            await asyncio.sleep(max(0.0, 60 * (bucket_of(NOW) + minute) - clock.now()))
            for _ in range(59):
                await asyncio.sleep(1)
                await here.discover(64)
            seen.append(here.estimate.has_seen(bucket_of(clock.now())))
        await here.close()
        assert here.estimate.value == 20
        return seen, swarm.read[begun:]

    seen, reads = in_virtual_time(scenario)
    assert seen == [True] * 4
    assert len(reads) <= 5
    assert sum(map(len, reads)) <= len(reads) + 2, "a skewed bucket now and then"


def test_a_slow_dht_holds_no_discover_up() -> None:
    async def scenario(clock: VirtualClock) -> float:
        class Slow(Scripted):
            async def get(self, keys: Sequence[str], /) -> Mapping[str, Mapping[str, bytes]]:
                await asyncio.sleep(3600)
                return {}

        here = rendezvous(Slow(), clock)
        begun = clock.now()
        for _ in range(5):
            await here.discover(16)
        await here.close()
        return clock.now() - begun

    assert in_virtual_time(scenario) <= 10


def test_our_own_announcements_are_no_news_to_us_but_another_instances_are() -> None:
    async def scenario(clock: VirtualClock) -> list[bytes]:
        swarm = Scripted()
        here = rendezvous(swarm, clock)
        mine = announcement(OWN, bundle(OWN))
        other = announcement(OWN, bundle(OWN, sequence=2), created=NOW - 1)
        here.adopt(mine)
        (at,) = publishing_keys(SWARM, public_key_of(OWN), bucket_of(NOW), 0)
        swarm.records[at] = {"": other, "again": mine}
        return [entry.announcement.encoded for entry in await here.discover(16)]

    (found,) = in_virtual_time(scenario)
    assert found == announcement(OWN, bundle(OWN, sequence=2), created=NOW - 1)
