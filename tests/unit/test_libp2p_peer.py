"""The peer on py-libp2p: questions and answers, topics, and what it has to bear."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path

import pytest

from swarmnode.network.incoming import STREAMS_PER_PEER_MAX
from swarmnode.network.peer import PeerUnreachable, peer_id_in
from swarmnode.network.ports import StartFailed
from tests.unit.libp2p_support import ECHO, Libp2pPeer, echo, guest, order, peers, run, until
from tests.unit.network_members import peer_id

TOPIC = "a topic"


def test_a_peer_is_who_its_key_says_at_the_address_that_it_tells(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path), order(2, tmp_path)) as (one, two):
            assert (one.peer_id, two.peer_id) == (peer_id(1), peer_id(2))
            [address] = one.addresses
            assert address.startswith("/ip4/127.0.0.1/tcp/")
            assert peer_id_in(address) == one.peer_id
            [(found, where)] = await two.connected()
            assert found == one.peer_id
            assert where == address
            [(found, where)] = await one.connected()
            assert found == two.peer_id
            assert where.startswith("/ip4/127.0.0.1/tcp/")
            assert await two.ping(one.peer_id)
            assert await one.ping(two.peer_id)
            assert not await two.ping(peer_id(3))
            await two.disconnect(one.peer_id)
            await until(lambda: _nobody(one))
            assert not await two.connect(address.replace(one.peer_id, peer_id(9))), "another key"
            assert await two.connect(address)

    run(scenario)


async def _nobody(peer: Libp2pPeer) -> bool:
    return not await peer.connected()


def test_requests_and_answers_of_any_length_within_limits_that_hold(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path), order(2, tmp_path)) as (one, two):
            waiting = asyncio.Event()

            async def late(_peer_id: str, _request: bytes) -> bytes:
                await waiting.wait()
                return b""

            async def failing(_peer_id: str, _request: bytes) -> bytes:
                raise RuntimeError("ours")

            one.serve(ECHO, echo, 3_000_000)
            one.serve("/swarmnode/late/1", late, 10)
            one.serve("/swarmnode/failing/1", failing, 10)
            for size in (0, 1, 70_000, 2_500_000):
                message = os.urandom(size)
                assert await two.call(one.peer_id, ECHO, message, size, 60) == message
            for protocol, request, limit in (
                (ECHO, bytes(3_000_001), 10_000_000),  # longer than is read
                (ECHO, bytes(100), 99),  # an answer longer than wanted
                ("/swarmnode/failing/1", b"", 10),
                ("/swarmnode/unknown/1", b"", 10),
            ):
                with pytest.raises(PeerUnreachable):
                    await two.call(one.peer_id, protocol, request, limit, 60)
            # One peer can't take all the places; when it lets go, it is served again.
            asked = [
                asyncio.ensure_future(two.call(one.peer_id, "/swarmnode/late/1", b"", 10, 60))
                for _ in range(STREAMS_PER_PEER_MAX + 2)
            ]
            refused: set[asyncio.Future[bytes]] = set()
            held = set(asked)
            while len(refused) < 2:
                done, held = await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED)
                refused |= done
            waiting.set()
            assert await asyncio.gather(*held) == [b""] * STREAMS_PER_PEER_MAX
            for call in refused:
                assert isinstance(call.exception(), PeerUnreachable)
            assert await two.call(one.peer_id, ECHO, b"again", 10, 60) == b"again"
            waiting.clear()
            begun = time.monotonic()
            with pytest.raises(PeerUnreachable):
                await two.call(one.peer_id, "/swarmnode/late/1", b"", 10, 0.3)
            assert time.monotonic() - begun < 10
            assert one.bytes_in >= 2_570_001
            assert one.bytes_out >= 2_570_001

    run(scenario)


def test_who_was_refused_hears_nothing_and_costs_no_handler(tmp_path: Path) -> None:
    async def scenario() -> None:
        ordered = order(1, tmp_path)
        async with guest() as on, peers(on, ordered, order(2, tmp_path)) as (one, two):
            one.serve(ECHO, echo, 100)
            assert await two.call(one.peer_id, ECHO, b"x", 10, 30) == b"x"
            assert ordered.doors is not None
            assert ordered.doors.whereabouts.knows(two.peer_id), "from its connection"
            ordered.doors.refuse(two.peer_id, 60)
            with pytest.raises(PeerUnreachable):
                await two.call(one.peer_id, ECHO, b"x", 10, 5)
            # A connection of its own is not kept either.
            await one.disconnect(two.peer_id)
            await until(lambda: _nobody(two))
            await two.connect(one.addresses[0])
            await until(lambda: _nobody(two))

    run(scenario)


def test_what_is_published_on_a_topic_is_heard_by_those_who_listen(tmp_path: Path) -> None:
    async def scenario() -> None:
        orders = [order(number, tmp_path) for number in (1, 2, 3)]
        async with guest() as on, peers(on, *orders) as (hub, left, right):
            heard: dict[str, list[tuple[str, bytes]]] = {}
            for each in (hub, left, right):
                mine = heard.setdefault(each.peer_id, [])
                each.listen(TOPIC, partial(_take, mine))
            assert await left.publish("another topic", b"nobody's") == 0

            async def told(data: bytes, at: Libp2pPeer) -> bool:
                """Said again, since a mesh that is being made loses some."""
                await left.publish(TOPIC, data)
                await asyncio.sleep(0.3)
                return (left.peer_id, data) in heard[at.peer_id]

            await until(lambda: told(b"hello", right))
            assert (left.peer_id, b"hello") in heard[hub.peer_id]
            assert not heard[left.peer_id], "our own are no news"
            # What the one between finds of no worth goes no further.
            await until(lambda: told(b"refused", hub))
            await until(lambda: told(b"last", right))
            assert (left.peer_id, b"refused") not in heard[right.peer_id]
            right.listen(TOPIC, None)
            await asyncio.sleep(2)
            await until(lambda: told(b"left", hub))
            assert (left.peer_id, b"left") not in heard[right.peer_id]

    run(scenario)


def _take(mine: list[tuple[str, bytes]], origin: str, data: bytes) -> bool:
    mine.append((origin, data))
    return data != b"refused"


def test_a_port_in_use_and_an_address_that_is_none_are_one_line(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with guest() as on, peers(on, order(1, tmp_path)) as (one,):
            port = one.addresses[0].split("/")[4]
            taken = order(2, tmp_path, listen=(f"/ip4/127.0.0.1/tcp/{port}",))
            with pytest.raises(StartFailed, match="in use"):
                await Libp2pPeer.start_on(on, taken)
            quic = order(2, tmp_path, listen=("/ip4/127.0.0.1/udp/0/quic-v1",))
            with pytest.raises(StartFailed, match="libp2p listens by TCP, not on /ip4"):
                await Libp2pPeer.start_on(on, quic)
            none = order(2, tmp_path, announce_addresses=("hello",))
            with pytest.raises(StartFailed, match="not an address: hello"):
                await Libp2pPeer.start_on(on, none)

    run(scenario)


def test_a_peer_that_ends_says_so_and_another_is_built_in_its_place(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = await Libp2pPeer.start(order(1, tmp_path))
        [address] = first.addresses
        assert not first.died.is_set()

        async def fail() -> None:
            raise RuntimeError("a bug")

        first._guest._token.run_sync_soon(first._guest._nursery.start_soon, fail)
        await asyncio.wait_for(first.died.wait(), 10)
        with pytest.raises(PeerUnreachable):
            await first.call(peer_id(2), ECHO, b"", 10, 5)
        assert await first.publish(TOPIC, b"") == 0
        assert await first.connected() == []
        await first.close()
        port = address.split("/")[4]
        second = await Libp2pPeer.start(order(1, tmp_path, listen=(f"/ip4/127.0.0.1/tcp/{port}",)))
        assert second.addresses == [address]
        await second.close()
        assert second.died.is_set()

    run(scenario)


def test_a_guest_passes_on_results_errors_and_cancellation_both_ways() -> None:
    async def scenario() -> None:
        from swarmnode.network.light_libp2p import trio

        async with guest() as on:
            ended: list[str] = []

            async def twice(number: int) -> int:
                await trio.sleep(0)
                return 2 * number

            async def fail() -> None:
                raise KeyError("mine")

            async def wait() -> None:
                try:
                    await trio.sleep_forever()
                finally:
                    ended.append("trio")

            async def asks() -> int:
                return await on.host(_later(ended, 7))

            assert await on.call(twice, 21) == 42
            with pytest.raises(KeyError, match="mine"):
                await on.call(fail)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await on.call(wait)
            assert ended == ["trio"], "waited for"
            assert await on.call(asks) == 7
            pending = asyncio.ensure_future(on.call(wait))
            await asyncio.sleep(0.1)
        with pytest.raises(ConnectionError):
            await pending
        with pytest.raises(ConnectionError):
            await on.call(twice, 1)
        assert ended == ["trio", "asyncio", "trio"]

    run(scenario)


async def _later(ended: list[str], value: int) -> int:
    await asyncio.sleep(0.01)
    ended.append("asyncio")
    return value


def test_over_ipv6_both_ends_know_where_the_other_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        over_ipv6 = {"listen": ("/ip6/::1/tcp/0",)}
        orders = [order(number, tmp_path, **over_ipv6) for number in (1, 2)]
        async with guest() as on, peers(on, *orders) as (one, two):
            one.serve(ECHO, echo, 100)
            assert await two.call(one.peer_id, ECHO, b"over IPv6", 10, 30) == b"over IPv6"
            [(found, where)] = await one.connected()
            assert found == two.peer_id
            assert where.startswith("/ip6/::1/tcp/")
            assert where.endswith(f"/p2p/{two.peer_id}")

    run(scenario)
