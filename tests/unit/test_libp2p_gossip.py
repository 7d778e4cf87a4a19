"""Gossip over live hosts on loopback: nothing is lost, whatever makes it late."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from swarmnode.buckets import Rate
from swarmnode.clock import SystemClock
from swarmnode.network.doors import Doors, Limit, Limits
from swarmnode.network.trio_guest import Guest
from swarmnode.network.whereabouts import Whereabouts
from tests.unit.libp2p_support import (
    LOOPBACK,
    Libp2pPeer,
    Stranger,
    guest,
    order,
    peers,
    run,
    stranger,
    until,
)
from tests.unit.network_made import private_key

# isort: split
from swarmnode.network import libp2p_messages, libp2p_neighbour, libp2p_repair, recent_messages
from swarmnode.network.light_libp2p import GossipMessages, trio
from swarmnode.network.mesh import DEGREE_LOW

TOPIC = "a topic"
MESH = "/meshsub/1.1.0"
SIZE = 400


class Ears:
    """What each of some peers has heard, by its id."""

    def __init__(self, listening: Sequence[Libp2pPeer]) -> None:
        self.heard: dict[str, list[bytes]] = {peer.peer_id: [] for peer in listening}
        for peer in listening:
            peer.listen(TOPIC, self._ear(peer))

    def _ear(self, peer: Libp2pPeer) -> Callable[[str, bytes], bool]:
        def take(_origin: str, data: bytes) -> bool:
            self.heard[peer.peer_id].append(data)
            return True

        return take

    def has_all(self, told: Sequence[bytes], *at: Libp2pPeer) -> bool:
        """Whether these peers have heard all of it, each thing once."""
        assert all(len(set(each)) == len(each) for each in self.heard.values()), "heard twice"
        return all(set(told) <= set(self.heard[peer.peer_id]) for peer in at)


def numbered(count: int, by: int = 0) -> list[bytes]:
    """Different messages of some length."""
    return [f"{by} {number} ".encode().ljust(SIZE, b"x") for number in range(count)]


@asynccontextmanager
async def pair(on: Guest, folder: Path) -> AsyncIterator[tuple[Libp2pPeer, Libp2pPeer, Ears]]:
    """Two peers in each other's mesh."""
    async with peers(on, order(1, folder), order(2, folder)) as (one, two):
        ears = Ears((one, two))
        await until(lambda: meshed(one, two))
        yield one, two, ears


def meshed(*listening: Libp2pPeer) -> bool:
    """Whether each has as many in its mesh as it wants."""
    wanted = min(DEGREE_LOW, len(listening) - 1)
    return all(len(peer._gossiping.mesh_of(TOPIC)) >= wanted for peer in listening)


def test_eight_who_know_each_other_all_hear_everything(tmp_path: Path) -> None:
    async def scenario() -> None:
        orders = [order(number, tmp_path) for number in range(1, 9)]
        async with guest() as on, peers(on, *orders) as everybody:
            for number, peer in enumerate(everybody):
                others = everybody[1:number]
                await asyncio.gather(*(peer.connect(other.addresses[0]) for other in others))
            ears = Ears(everybody)
            await until(lambda: meshed(*everybody))
            told = {peer.peer_id: numbered(8, by) for by, peer in enumerate(everybody)}
            for peer in everybody:
                for data in told[peer.peer_id]:
                    assert await peer.publish(TOPIC, data) >= DEGREE_LOW
            for peer in everybody:
                due = [data for of, each in told.items() if of != peer.peer_id for data in each]
                await until(lambda due=due, peer=peer: ears.has_all(due, peer))  # type: ignore[misc]
            assert all(peer._gossiping.counts["missed"] == 0 for peer in everybody)

    run(scenario)


def test_what_there_is_no_room_for_is_told_by_name_and_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with guest() as on, pair(on, tmp_path) as (one, two, ears):
            [neighbour] = one._gossiping._neighbours.values()
            await until(lambda: not neighbour.lacks)  # as who has just come
            monkeypatch.setattr(libp2p_neighbour, "WAITING_BYTES_MAX", 20 * SIZE)
            monkeypatch.setattr(recent_messages, "ANSWER_SECONDS", 0.3)
            told = numbered(60)
            await on.call(publish_at_once, one, told)
            assert not ears.has_all(told, two)
            await until(lambda: ears.has_all(told, two))
            assert one._gossiping.counts["missed"] >= 30
            assert two._gossiping.counts["came"] >= 30
            await until(lambda: not neighbour.lacks)

    run(scenario)


async def publish_at_once(peer: Libp2pPeer, told: Sequence[bytes]) -> None:
    """Under trio, which nothing of it waits for."""
    for data in told:
        await peer._gossiping.publish(TOPIC, data)


def test_a_stream_that_fails_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, pair(on, tmp_path) as (one, two, ears):
            told = numbered(40)
            for number, data in enumerate(told):
                await one.publish(TOPIC, data)
                if number % 10 == 5:
                    [neighbour] = two._gossiping._neighbours.values()
                    await on.call(neighbour.heard_on.reset)
            await until(lambda: ears.has_all(told, two))
            assert one._gossiping.counts["failed"] >= 1

    run(scenario)


def test_who_comes_later_hears_what_was_said_before_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, pair(on, tmp_path) as (one, two, _ears):
            told = numbered(20)
            for data in told:
                await one.publish(TOPIC, data)
            await asyncio.sleep(libp2p_repair.YOUNG_SECONDS)
            late = replace(order(3, tmp_path), bootstrap=tuple(one.addresses))
            async with peers(on, late) as (three,):
                ears = Ears((three,))
                await until(lambda: ears.has_all(told, three))
                # Nor does it get all of it again by leaving and coming back.
                for _ in range(3):
                    three.listen(TOPIC, None)
                    three.listen(TOPIC, lambda _origin, _data: True)
                await until(lambda: three.peer_id in one._gossiping.listeners(TOPIC))
                answered = one._gossiping.counts["answered"] + two._gossiping.counts["answered"]
                assert answered <= len(told) + 5

    run(scenario)


def signed(number: int, told: Sequence[bytes]) -> bytes:
    """Messages as their publisher says them, with that key."""
    signer = libp2p_messages.Signer(private_key(number))
    made = [signer.message(TOPIC, data) for data in told]
    return b"".join(libp2p_messages.framed(publish=[each]) for each in made)


async def held_open(one: Stranger, peer_id: str, said: bytes, ended: asyncio.Event) -> None:
    """Say something as gossip and stay."""

    async def say(stream: Any) -> None:
        await stream.write(said)
        await trio.sleep_forever()

    with contextlib.suppress(Exception):
        await one.on_stream(peer_id, MESH, say)
    ended.set()


def test_who_passes_on_more_than_its_share_is_read_later_and_not_less(tmp_path: Path) -> None:
    async def scenario() -> None:
        small = Limits(forwarded=Limit(Rate(40.0, 10.0), Rate(1e3, 1e3), Rate(1e3, 1e3)))
        doors = Doors(SystemClock(), Whereabouts(LOOPBACK), small)
        async with (
            guest() as on,
            peers(on, order(1, tmp_path, doors=doors)) as (victim,),
            stranger(on, 100) as one,
        ):
            ears = Ears((victim,))
            await one.connect(victim.addresses[0])
            told = numbered(60)
            begun = asyncio.get_running_loop().time()
            ended = asyncio.Event()
            saying = asyncio.ensure_future(held_open(one, victim.peer_id, signed(101, told), ended))
            await until(lambda: ears.has_all(told, victim))
            assert asyncio.get_running_loop().time() - begun >= (60 - 10) / 40 * 0.9
            assert victim._gossiping.counts["short"] > 0
            assert not ended.is_set()
            saying.cancel()
            await asyncio.wait([saying])

    run(scenario)


def test_a_peer_that_speaks_anew_is_heard_on_its_new_stream(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            guest() as on,
            peers(on, order(1, tmp_path)) as (victim,),
            stranger(on, 100) as one,
        ):
            ears = Ears((victim,))
            await one.connect(victim.addresses[0])
            saying = []
            for number in range(3):
                told = numbered(1, number)
                said = signed(101 + number, told)
                work = held_open(one, victim.peer_id, said, asyncio.Event())
                saying.append(asyncio.ensure_future(work))
                await until(lambda told=told: ears.has_all(told, victim))  # type: ignore[misc]
            for each in saying:
                each.cancel()
            await asyncio.wait(saying)

    run(scenario)


MADE_UP = [f"topic {number}" for number in range(300)]


def test_names_and_topics_that_are_made_up_leave_nothing_behind(tmp_path: Path) -> None:
    control = GossipMessages.ControlMessage(
        graft=[GossipMessages.ControlGraft(topicID=topic) for topic in MADE_UP],
        prune=[GossipMessages.ControlPrune(topicID=topic, backoff=2**60) for topic in MADE_UP],
        ihave=[
            GossipMessages.ControlIHave(topicID=topic, messageIDs=[bytes(46)])
            for topic in MADE_UP[:100]
        ],
    )
    many_topics = GossipMessages.Message(
        from_id=bytes.fromhex("002408011220") + bytes(32), data=b"x", seqno=bytes(8)
    )
    many_topics.topicIDs.extend([TOPIC, *MADE_UP])
    long_number = libp2p_messages.Signer(private_key(9)).message(TOPIC, b"x")
    long_number.seqno = bytes(10_000)
    said = libp2p_messages.framed(control=control, publish=[many_topics, long_number])

    async def scenario() -> None:
        async with (
            guest() as on,
            peers(on, order(1, tmp_path)) as (victim,),
            stranger(on, 100) as one,
        ):
            ears = Ears((victim,))
            await one.connect(victim.addresses[0])
            told = numbered(1)
            work = held_open(one, victim.peer_id, said * 3 + signed(101, told), asyncio.Event())
            saying = asyncio.ensure_future(work)
            await until(lambda: ears.has_all(told, victim))
            gossiping = victim._gossiping
            assert set(gossiping._meshes) == {TOPIC}
            assert len(gossiping._repair._wanted) == 0
            assert len(gossiping._recent._seen) == 1
            assert ears.heard[victim.peer_id] == told
            saying.cancel()
            await asyncio.wait([saying])

    run(scenario)


def test_asking_for_messages_over_and_over_brings_no_more_than_a_share(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with (
            guest() as on,
            pair(on, tmp_path) as (victim, _, _ears),
            stranger(on, 100) as one,
        ):
            told = numbered(50)
            for data in told:
                await victim.publish(TOPIC, data)
            names = list(victim._gossiping._recent._kept)
            await one.connect(victim.addresses[0])
            asked = b"".join(libp2p_messages.want(names, 100)) * 60
            saying = asyncio.ensure_future(held_open(one, victim.peer_id, asked, asyncio.Event()))
            await until(lambda: victim._gossiping.counts["answered"] >= 200)
            await asyncio.sleep(0.5)
            assert victim._gossiping.counts["answered"] < 50 * 60 // 2
            saying.cancel()
            await asyncio.wait([saying])

    run(scenario)
