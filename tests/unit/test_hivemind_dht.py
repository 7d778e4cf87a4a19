"""Real peers on loopback: records, requests, what dies and how it is noticed, what is opened."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from swarmnode.clock import SystemClock
from swarmnode.keys import peer_id_of
from swarmnode.network.addresses import tcp_part
from swarmnode.network.dht_records import key_id
from swarmnode.network.dht_table import Neighbours, node_id_of
from swarmnode.network.dialback import speaks_libp2p
from swarmnode.network.hivemind_dht import HivemindPeer
from swarmnode.network.incoming import STREAMS_PER_PEER_MAX
from swarmnode.network.light_hivemind import (
    DictionaryDHTValue,
    MSGPackSerializer,
    PeerID,
    dht_messages,
)
from swarmnode.network.p2pd import Daemon
from swarmnode.network.peer import PeerUnreachable
from swarmnode.network.sealing import SealedPeer, Sealing
from swarmnode.network.streams import parsed
from swarmproto import SwarmSecret, public_key_of, swarm_id
from tests.unit.dht_support import order, peers, record, run
from tests.unit.network_made import RULES, private_key

PROTOCOL = "/swarmnode/test/1"
NOBODY = "/ip4/127.0.0.1/tcp/9/p2p/" + peer_id_of(public_key_of(private_key(99)))


async def echo(_peer_id: str, request: bytes) -> bytes:
    return request


async def until_served(asking: HivemindPeer, peer_id: str) -> None:
    """Handlers are registered in the background."""
    for _ in range(100):
        try:
            await asking.call(peer_id, PROTOCOL, b"", 0, 5)
        except PeerUnreachable:
            await asyncio.sleep(0.05)
        else:
            return
    raise AssertionError("never served")


def test_the_light_import_brings_no_torch_and_little_memory() -> None:
    code = (
        "import sys\n"
        "import swarmnode.network.hivemind_dht\n"
        "import hivemind.dht.node, hivemind.p2p\n"
        "heavy = {'torch', 'numpy', 'transformers', 'hivemind.averaging', 'hivemind.moe',"
        " 'hivemind.optim', 'hivemind.dht.dht'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        # Not the maximum that getrusage gives: a fork of a large process inherits that.
        "import psutil; memory = psutil.Process().memory_info().rss\n"
        "assert memory < 70 * 2**20, memory\n"
        "import logging; assert logging.getLevelName(30) == 'WARNING'\n"
        "import importlib.util; assert importlib.util.find_spec('torch')\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_what_is_stored_on_others_is_counted_and_found_by_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        orders = [order(number, tmp_path) for number in (1, 2, 3)]
        orders.append(order(4, tmp_path, client=True))
        async with peers(*orders) as (first, second, third, client):
            assert first.peer_id == peer_id_of(public_key_of(private_key(1)))
            of_second, of_client = record(2), record(4)
            key = of_second[0]
            assert await second.store(*of_second) == 2, "its own copy doesn't count"
            assert await client.store(*of_client) == 3
            for peer in (first, second, third, client):
                found = await peer.get([key, "nothing"])
                assert set(found[key].values()) == {of_second[2], of_client[2]}
                assert not found["nothing"]
            assert not client.export_records(), "a client holds nothing for others"
            assert await third.ping(first.peer_id)
            assert await first.ping(client.peer_id), "its libp2p answers, where no DHT does"
            assert not await first._dht.ping(PeerID.from_base58(client.peer_id))
            assert client.peer_id in dict(await first.connected())
            assert third.clock_offset is not None
            assert abs(third.clock_offset) < 1
            with pytest.raises(ValueError, match="owner"):
                await first.store(key, "somebody else", *of_second[2:])

    run(scenario)


@pytest.mark.parametrize(
    "listen", ["/ip4/127.0.0.1/udp/0/quic-v1", "/ip6/::1/tcp/0", "/ip6/::1/udp/0/quic-v1"]
)
def test_quic_and_ipv6_carry_what_tcp_over_ipv4_does(tmp_path: Path, listen: str) -> None:
    if "ip6" in listen and not ipv6_here():
        pytest.skip("this machine has no IPv6 loopback")

    async def scenario() -> None:
        orders = [order(number, tmp_path, listen=(listen,)) for number in (1, 2)]
        async with peers(*orders) as (first, second):
            ((_, address),) = await second.connected()
            assert address.startswith(listen.partition("/0")[0]), "as it was asked for"
            first.serve(PROTOCOL, echo, 310_000)
            await until_served(second, first.peer_id)
            for size in (1, 300_000):
                sent = os.urandom(size)
                assert await second.call(first.peer_id, PROTOCOL, sent, 310_000, 30) == sent
            of_second = record(2)
            assert await second.store(*of_second) == 1
            if (part := tcp_part(first.addresses[0])) is not None:
                assert await speaks_libp2p(*part), "it can be dialled back"

    run(scenario)


def ipv6_here() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_an_address_through_a_relay_is_written_as_go_reads_it() -> None:
    relay, peer = (peer_id_of(public_key_of(private_key(number))) for number in (1, 2))
    place = parsed(f"/ip4/192.0.2.1/tcp/4001/p2p/{relay}/p2p-circuit/p2p/{peer}")
    assert place is not None
    identity = bytes.fromhex("002408011220") + public_key_of(private_key(1))
    expected = bytes.fromhex("04c0000201060fa1a50326") + identity + bytes.fromhex("a202")
    assert (str(place[0]), place[1]) == (peer, expected)
    assert parsed(f"/ip4/192.0.2.1/tcp/4001/p2p/0OIl/p2p-circuit/p2p/{peer}") is None


def test_alone_nothing_is_acknowledged_and_dead_bootstrap_peers_are_no_failure(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        started = time.monotonic()
        async with peers(order(1, tmp_path, bootstrap=(NOBODY,))) as (alone,):
            assert time.monotonic() - started < 30
            key, subkey, value, expires = record(1)
            assert await alone.store(key, subkey, value, expires) == 0
            assert await alone.get([key]) == {key: {subkey: value}}
            assert not await alone.connect(NOBODY)
            assert not await alone.connect("/ip4/127.0.0.1/nonsense/p2p/0OIl")
            assert not await alone.ping("0OIl")
            with pytest.raises(PeerUnreachable):
                await alone.call("0OIl", PROTOCOL, b"", 0, 5)
            # The records outlive the peer, unless they are not what they should be.
            kept = alone.export_records()
            assert len(kept) == 1
            await alone.close()
            async with peers(order(1, tmp_path)) as (again,):
                forged = (kept[0][0], kept[0][1], kept[0][2] + b"x", kept[0][3])
                again.import_records([forged])
                assert not again.export_records()
                again.import_records(kept)
                assert again.export_records() == kept

    run(scenario)


def test_requests_of_every_size_pass_and_limits_hold(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with peers(order(1, tmp_path), order(2, tmp_path, client=True)) as (server, asking):
            waiting = asyncio.Event()

            async def late(_peer_id: str, _request: bytes) -> bytes:
                await waiting.wait()
                return b""

            async def failing(_peer_id: str, _request: bytes) -> bytes:
                raise RuntimeError("ours")

            server.serve(PROTOCOL, echo, 6_000_000)
            server.serve("/swarmnode/late/1", late, 10)
            server.serve("/swarmnode/failing/1", failing, 10)
            await until_served(asking, server.peer_id)
            for size in (0, 1, 70_000, 5_000_000):
                message = os.urandom(size)
                answer = await asking.call(server.peer_id, PROTOCOL, message, size, 60)
                assert answer == message
            for protocol, request, limit in (
                (PROTOCOL, bytes(6_000_001), 10_000_000),  # longer than is read
                (PROTOCOL, bytes(100), 99),  # an answer longer than wanted
                ("/swarmnode/failing/1", b"", 10),
                ("/swarmnode/unknown/1", b"", 10),
            ):
                with pytest.raises(PeerUnreachable):
                    await asking.call(server.peer_id, protocol, request, limit, 60)
            # One peer can't take all the places; when it lets go, it is served again.
            calls = [
                asking.call(server.peer_id, "/swarmnode/late/1", b"", 10, 60)
                for _ in range(STREAMS_PER_PEER_MAX + 2)
            ]
            asked = [asyncio.ensure_future(call) for call in calls]
            refused: set[asyncio.Future[bytes]] = set()
            held = set(asked)
            while len(refused) < 2:
                done, held = await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED)
                refused |= done
            waiting.set()
            assert await asyncio.gather(*held) == [b""] * STREAMS_PER_PEER_MAX
            for call in refused:
                assert isinstance(call.exception(), PeerUnreachable)
            # A place is free once the server has seen that its caller hung up.
            await until_served(asking, server.peer_id)
            assert await asking.call(server.peer_id, PROTOCOL, b"again", 10, 60) == b"again"
            waiting.clear()
            with pytest.raises(PeerUnreachable):
                await asking.call(server.peer_id, "/swarmnode/late/1", b"", 10, 0.3)

    run(scenario)


def test_a_replica_that_lies_about_records_and_neighbours_hides_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with peers(order(1, tmp_path), order(2, tmp_path), order(3, tmp_path)) as (
            first,
            reader,
            _,
        ):
            key, subkey, value, expires = record(1)
            assert await first.store(key, subkey, value, expires) == 2
            liar = await Daemon.start(order(66, tmp_path, bootstrap=()))
            try:
                strangers = [public_key_of(private_key(number)) for number in range(100, 120)]
                prefix = bytes.fromhex("002408011220")
                empty = MSGPackSerializer.dumps(DictionaryDHTValue())
                asked = 0

                async def find(request: object, _context: object) -> object:
                    nonlocal asked
                    asked += 1
                    result = dht_messages.FindResult(
                        type=dht_messages.FOUND_DICTIONARY,
                        value=empty,
                        expiration_time=float("inf"),
                        nearest_node_ids=[bytes(20)] * 21,
                        nearest_peer_ids=[bytes(100_000), *(prefix + key for key in strangers)],
                    )
                    keys = getattr(request, "keys", ())
                    return dht_messages.FindResponse(
                        results=[result for _ in keys],
                        peer=dht_messages.NodeInfo(node_id=bytes(20)),
                    )

                async def ping(_request: object, _context: object) -> object:
                    return dht_messages.PingResponse(
                        peer=dht_messages.NodeInfo(node_id=bytes(20)), dht_time=0.0
                    )

                add = liar.p2p.add_protobuf_handler
                await add("DHTProtocol.rpc_find", find, dht_messages.FindRequest)
                await add("DHTProtocol.rpc_ping", ping, dht_messages.PingRequest)
                where = f"{(await liar.p2p.get_visible_maddrs())[0]}"
                assert await reader.connect(where)
                found = await reader.get([key])
                assert asked, "the liar was asked"
                assert found == {key: {subkey: value}}
            finally:
                await liar.close()

    run(scenario)


def test_a_killed_p2pd_is_noticed_at_once_and_every_call_still_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with peers(order(1, tmp_path), order(2, tmp_path)) as (first, second):
            os.kill(first.process_id, signal.SIGKILL)
            await asyncio.wait_for(first.died.wait(), 10)
            started = time.monotonic()
            assert await first.store(*record(1)) == 0
            assert await first.connected() == []
            assert not await first.ping(second.peer_id)
            assert not await first.connect(second.addresses[0])
            with pytest.raises(PeerUnreachable):
                await first.call(second.peer_id, PROTOCOL, b"", 10, 5)
            assert time.monotonic() - started < 20
            assert not await second.ping(first.peer_id)
            assert not second.died.is_set()

    run(scenario)


def test_however_many_peers_come_the_routing_table_stays_bounded() -> None:
    def peer(number: int) -> Any:
        return PeerID(bytes.fromhex("002408011220") + number.to_bytes(32))

    neighbours = Neighbours(peer(0))
    for number in range(3000):
        neighbours.met(peer(number))
    assert 150 < len(neighbours) < 1600, "hivemind alone would keep all 2999"
    place = node_id_of(peer(0))
    nearest = neighbours.nearest(place, 8)
    assert len(nearest) == 8
    true_order = sorted(range(1, 3000), key=lambda number: node_id_of(peer(number)) ^ place)
    assert nearest == [peer(number) for number in true_order[:8]]
    for each in nearest:
        neighbours.forget(each)
    assert not set(nearest) & set(neighbours.nearest(place, 8))


def test_a_peer_whose_dht_answers_nonsense_is_one_that_does_not_answer(tmp_path: Path) -> None:
    async def nonsense(_request: bytes, _remote_id: Any) -> bytes:
        return b"\xff" * 8

    async def scenario() -> None:
        async with peers(order(1, tmp_path), order(2, tmp_path, client=True)) as (asking, liar):
            for name in ("rpc_ping", "rpc_find", "rpc_store"):
                raw = liar._daemon.p2p._client
                await raw.add_unary_handler(f"DHTProtocol.{name}", nonsense)
            asking._dht._met(PeerID.from_base58(liar.peer_id))
            key, subkey, value, expires = record(1)
            assert await asking.get([key]) == {key: {}}
            asking._dht._met(PeerID.from_base58(liar.peer_id))
            assert await asking.store(key, subkey, value, expires) == 0
            assert not await asking._dht.ping(PeerID.from_base58(liar.peer_id))

    run(scenario)


def test_the_dht_of_a_private_swarm_consists_of_members_alone(tmp_path: Path) -> None:
    secret = SwarmSecret(bytes(range(32)))
    sealing = Sealing(secret, SystemClock())
    swarm = swarm_id(RULES, secret)
    member = {"swarm_id": swarm, "sealing": sealing}

    async def scenario() -> None:
        orders = [order(number, tmp_path, **member) for number in (1, 2, 3)]
        orders.append(order(4, tmp_path))  # with the same rules, and no key
        async with peers(*orders) as (*inside, outside):
            one, two, three = (SealedPeer(peer, sealing) for peer in inside)
            key, subkey, value, expires = record(2, swarm=swarm)
            for address in outside.addresses:
                assert await one.connect(address)
            assert await two.store(key, subkey, value, expires) == 2
            for peer in (one, three):
                assert set((await peer.get([key]))[key].values()) == {value}
            assert await three.ping(one.peer_id)
            assert not await inside[0]._dht.ping(PeerID.from_base58(outside.peer_id))
            assert [peer._dht.neighbours for peer in inside] == [2, 2, 2]
            assert outside._dht.neighbours == 0
            # Even one who knows the place is told and given nothing.
            place = secret.place(key)
            own = secret.subkey(key_id(place), subkey)
            assert inside[0].export_records()[0][:2] == (key_id(place), own)
            outside._dht._met(PeerID.from_base58(one.peer_id))
            assert await outside.get([place, key]) == {place: {}, key: {}}
            outside._dht._met(PeerID.from_base58(one.peer_id))
            assert await outside.store(*record(4)) == 0
            find, answered = "DHTProtocol.rpc_find", dht_messages.FindResponse()
            request = dht_messages.FindRequest(keys=[key_id(place)])
            assert (
                await outside._daemon.p2p.call_protobuf_handler(
                    PeerID.from_base58(one.peer_id), find, request, dht_messages.FindResponse
                )
                == answered
            )
            assert sealing.counts[f"{find}/request/seal"] >= 1

    run(scenario)
