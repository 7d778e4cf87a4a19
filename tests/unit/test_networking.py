"""The network process as its daemon sees it: its methods, its errors, and real peers at the end."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from swarmnode.channel import CallFailed, Channel
from swarmnode.clock import SystemClock
from swarmnode.keys import peer_id_of
from swarmnode.network.assembly import Assembly
from swarmnode.network.peer_order import PeerOrder
from swarmnode.network.premises import LAST_RESORT
from swarmnode.networking import METHOD_SECONDS, Networking, serve
from swarmproto import (
    FetchRequest,
    SwarmSecret,
    bundle_id,
    decode_fetch_response,
    encode_fetch_request,
    public_key_of,
    swarm_id,
)
from tests.unit.lan_support import LOOPBACK, Air, AirLink
from tests.unit.network_fake import FakePeer, FakeWorld
from tests.unit.network_made import (
    RULES,
    RULES_BYTES,
    SWARM,
    announcement,
    bundle,
    private_key,
)


def order(number: int, folder: Path, **changed: Any) -> dict[str, Any]:
    return {
        "private_key": private_key(number),
        "swarm_id": SWARM,
        "rules": RULES_BYTES,
        "listen": ["/ip4/127.0.0.1/tcp/0"],
        "announce_addresses": [],
        "bootstrap": [],
        "saved_peers": [],
        "public": False,
        "relay": False,
        "test_network": False,
        "exempt_networks": [],
        "lan": False,
        "lan_port": 0,
        "lan_interfaces": [],
        "transport": "hivemind",
        "folder": str(folder),
        "swarm_key": b"",
        **changed,
    }


@asynccontextmanager
async def in_process(
    world: FakeWorld, orders: list[PeerOrder], air: Air | None = None
) -> AsyncIterator[Channel]:
    """The daemon's end of a channel to a Networking in this process, whose one local network is
    the loopback."""
    heard_by = air or Air()

    async def build(peer_order: PeerOrder) -> FakePeer:
        orders.append(peer_order)
        if peer_order.listen[0].endswith("/tcp/1"):
            raise OSError("port 1 is in use by process 7")
        number = peer_order.private_key[0]
        return FakePeer(world, peer_order.private_key, 4000 + number, not peer_order.client)

    ours, theirs = socket.socketpair()
    assembly = Assembly(
        build,
        SystemClock(),
        random.Random(0),
        places=lambda names: [LOOPBACK] if "none" not in names else [],
        open_link=partial(AirLink, heard_by),
    )
    networking = Networking(assembly)
    serving = asyncio.ensure_future(serve(theirs, networking, lambda: None))
    channel = await Channel.over(ours, {})
    running = asyncio.ensure_future(channel.run())
    try:
        yield channel
    finally:
        await channel.close()
        await asyncio.gather(serving, running)


async def published(
    channel: Channel, number: int, sequence: int = 1, swarm: bytes = SWARM
) -> tuple[Any, dict[str, Any]]:
    key = private_key(number)
    made, now = bundle(key, sequence=sequence, swarm=swarm), time.time()
    holders = tuple(await channel.call("holders", {}, 5))
    payload = {
        "announcement": announcement(key, made, created=now, holders=holders, swarm=swarm),
        "header": made.header_bytes,
        "groups": list(made.group_bytes),
        "expires": now + 300,
    }
    return made, await channel.call("announce", payload, 60)


def test_a_daemon_joins_publishes_holds_and_leaves(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, orders = FakeWorld(time.time), list[PeerOrder]()
        async with in_process(world, orders) as one, in_process(world, orders) as two:
            assert await one.call("health", {}, 5) == {"state": "starting"}
            begun = await one.call("start", order(1, tmp_path), 5)
            assert begun["peer_id"] == peer_id_of(public_key_of(private_key(1)))
            address = begun["addresses"][0]
            await two.call("start", order(2, tmp_path, bootstrap=[address]), 5)
            await until(two, "peers", 1, 10)
            made, outcome = await published(two, 2)
            assert outcome == {"acknowledged": True, "offered": []}
            ((data, peer),) = await one.call("discover", {"count": 8}, 5)
            assert (type(data), type(peer)) == (bytes, str)
            request = encode_fetch_request(
                FetchRequest(SWARM, bundle_id(made.header_bytes), (0, 1))
            )
            holder = (await two.call("holders", {}, 5))[0]
            answer = await one.call("fetch", {"holder": holder, "request": request}, 5)
            groups = dict(decode_fetch_response(answer).groups)
            admitted = {
                "announcement": data,
                "header": made.header_bytes,
                "groups": groups,
                "expires": time.time() + 60,
            }
            assert await one.call("hold", admitted, 5) is None
            health = await one.call("health", {}, 5)
            assert health["state"] == "connected"
            assert health["held_bytes"]["relayed"] > 0
            await one.call("good_peer", {"address": holder}, 5)
            assert (await one.call("saved_peers", {}, 5))[0] == holder
            file = await two.call("swarm_file", {"swarm_id": SWARM, "address": address}, 5)
            assert file["rules"] == RULES_BYTES
            assert address in file["bootstrap"]
            await one.call("stop", {}, 5)
            assert len(world.peers) == 1
        assert not world.peers, "hanging up ends the peer as well"

    asyncio.run(scenario())


def test_a_private_swarm_is_ordered_by_its_key_and_shared_with_members(tmp_path: Path) -> None:
    key = bytes(range(32))
    swarm = swarm_id(RULES, SwarmSecret(key))
    private = {"swarm_id": swarm, "swarm_key": key}

    async def scenario() -> None:
        world, orders = FakeWorld(time.time), list[PeerOrder]()
        async with AsyncExitStack() as stack:
            one, two, public = [
                await stack.enter_async_context(in_process(world, orders)) for _ in range(3)
            ]
            address = (await one.call("start", order(1, tmp_path, **private), 5))["addresses"][0]
            await two.call("start", order(2, tmp_path, bootstrap=[address], **private), 5)
            await public.call("start", order(3, tmp_path, bootstrap=[address]), 5)
            assert [each.sealing is None for each in orders] == [False, False, True]
            for each in (two, public):
                await until(each, "peers", 1, 10)
            _, outcome = await published(two, 2, swarm=swarm)
            assert outcome["acknowledged"]
            assert len(await one.call("discover", {"count": 8}, 5)) == 1
            assert not await public.call("discover", {"count": 8}, 5)
            file = await two.call("swarm_file", {"swarm_id": swarm, "address": address}, 5)
            assert file["rules"] == RULES_BYTES
            for wanted in (swarm, SWARM):
                asked = {"swarm_id": wanted, "address": address}
                with pytest.raises(CallFailed, match="PeerUnreachable"):
                    await public.call("swarm_file", asked, 5)
            assert (await one.call("health", {}, 5))["unopened"]
            assert key.hex() not in str(await one.call("health", {}, 5))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"listen": ["/ip4/127.0.0.1/tcp/1"]}, "port 1 is in use by process 7"),
        ({"listen": []}, "start: listen: at least one address"),
        ({"listen": "text"}, "start: listen: expected a list of texts"),
        ({"private_key": b"short"}, "start: private_key: expected 32 bytes, got 5"),
        ({"public": 1}, "start: public: expected bool, got int"),
        ({"rules": b"x"}, "start: rules: "),
        ({"swarm_id": bytes(32)}, "start: the rules, or the key, are not those of the swarm id"),
        ({"swarm_key": bytes(32)}, "start: the rules, or the key, are not those of the swarm id"),
        ({"swarm_key": b"short"}, "start: swarm_key: expected 32 bytes, got 5"),
    ],
)
def test_a_bad_order_gives_one_clear_line_and_another_may_follow(
    changed: dict[str, Any], line: str, tmp_path: Path
) -> None:
    async def scenario() -> None:
        world = FakeWorld(time.time)
        async with in_process(world, []) as channel:
            with pytest.raises(CallFailed) as failed:
                await channel.call("start", order(1, tmp_path, **changed), 5)
            assert line in str(failed.value)
            assert "\n" not in str(failed.value)
            await channel.call("start", order(1, tmp_path), 5)
            with pytest.raises(CallFailed, match="was started already"):
                await channel.call("start", order(1, tmp_path), 5)

    asyncio.run(scenario())


def test_nothing_but_health_is_answered_before_the_start() -> None:
    async def scenario() -> None:
        async with in_process(FakeWorld(time.time), []) as channel:
            for method in sorted(set(METHOD_SECONDS) - {"start", "health", "stop"}):
                payload = {"address": "", "peer_id": "", "seconds": 1, "count": 1, "swarm_id": b""}
                payload |= {"announcement": b"", "header": b"", "groups": [], "expires": 0}
                payload |= {"holder": "", "request": b""}
                with pytest.raises(CallFailed, match="was not started"):
                    await channel.call(method, payload, 5)
            await channel.call("stop", {}, 5)

    asyncio.run(scenario())


def test_a_failing_fetch_is_an_error_of_one_line(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with in_process(FakeWorld(time.time), []) as channel:
            await channel.call("start", order(1, tmp_path), 5)
            holder = f"/ip4/127.0.0.1/tcp/4002/p2p/{peer_id_of(public_key_of(private_key(2)))}"
            with pytest.raises(CallFailed, match="PeerUnreachable: could not be dialled"):
                await channel.call("fetch", {"holder": holder, "request": b"x"}, 5)

    asyncio.run(scenario())


def test_a_node_that_begins_elsewhere_than_on_this_machine_begins_as_a_client(
    tmp_path: Path,
) -> None:
    outside = "/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq"

    async def client(**changed: Any) -> bool:
        orders: list[PeerOrder] = []
        async with in_process(FakeWorld(time.time), orders) as channel:
            await channel.call("start", order(1, tmp_path, **changed), 5)
        return orders[0].client

    assert not asyncio.run(client())
    assert asyncio.run(client(bootstrap=[outside]))
    assert asyncio.run(client(listen=["/ip4/0.0.0.0/tcp/0"]))
    assert not asyncio.run(client(bootstrap=[outside], test_network=True))
    assert not asyncio.run(client(listen=["/ip4/0.0.0.0/tcp/0"], public=True))
    near = outside.replace("192.0.2.1", "192.168.1.2")
    assert not asyncio.run(client(listen=[], lan=True, bootstrap=[near]))
    assert asyncio.run(client(bootstrap=[near]))
    assert asyncio.run(client(listen=[], lan=True, bootstrap=[outside]))


def test_with_lan_a_node_listens_on_local_networks_says_so_and_hears_of_others(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        world, orders, air = FakeWorld(time.time), list[PeerOrder](), Air()
        async with in_process(world, orders, air) as one, in_process(world, orders, air) as two:
            for number, each in enumerate((one, two)):
                await each.call("start", order(1 + number, tmp_path, listen=[], lan=True), 10)
            ((first,), (second,)) = (each.listen for each in orders)
            assert first.startswith("/ip4/127.0.0.1/tcp/")
            assert first != second
            port = int(first.rpartition("/")[2])

            for _ in range(200):
                if (told := (await one.call("health", {}, 5))["lan"])["counts"]:
                    break
                await asyncio.sleep(0.05)
            assert told["counts"]["told"], "it has heard of the other"
            assert told["addresses"] == [f"127.0.0.1:{port}"]
        async with in_process(world, orders) as away:
            lan = {"listen": [], "lan": True, "lan_interfaces": ["none"], "lan_port": port}
            await away.call("start", order(1, tmp_path, **lan), 10)
            assert orders[-1].listen == (LAST_RESORT,)

    asyncio.run(scenario())


@asynccontextmanager
async def real_process(number: int, folder: Path) -> AsyncIterator[tuple[Channel, int]]:
    """The daemon's end of a channel to a real network process, and its process id."""
    ours, theirs = socket.socketpair()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "swarmnode.networking", str(theirs.fileno()), "hivemind"),
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    theirs.close()
    channel = await Channel.over(ours, {})
    running = asyncio.ensure_future(channel.run())
    try:
        yield channel, process.pid
    finally:
        await channel.close()
        await running
        async with asyncio.timeout(20):
            await process.wait()


async def until(channel: Channel, figure: str, least: int, seconds: float) -> float:
    """Wait until a figure of `health` is large enough; how long it took."""
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        if (await channel.call("health", {}, 10))[figure] >= least:
            return time.monotonic() - begun
        await asyncio.sleep(0.05)
    raise AssertionError(f"{figure} stayed below {least}")


def test_three_real_processes_find_fetch_and_survive_the_death_of_p2pd(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with AsyncExitStack() as stack:
            nodes = [
                await stack.enter_async_context(real_process(number, tmp_path))
                for number in (1, 2, 3)
            ]
            channels = [channel for channel, _ in nodes]
            begun = await channels[0].call("start", order(1, tmp_path), 130)
            assert begun["peer_id"] == peer_id_of(public_key_of(private_key(1)))
            bootstrap = begun["addresses"][:1]
            for number, channel in enumerate(channels[1:], start=2):
                joining = order(number, tmp_path, bootstrap=bootstrap)
                await channel.call("start", joining, 130)
            await asyncio.gather(*(until(each, "peers", 1, 30) for each in channels))
            made, outcome = await published(channels[1], 2)
            assert outcome["acknowledged"]
            seconds = await found_and_fetched(channels[2], channels[1], made)
            print(f"from the announcement to the fetched bundle: {seconds:.2f} s")
            assert seconds < 20

            children = psutil.Process(nodes[1][1]).children()
            (p2pd,) = [child for child in children if "p2pd" in child.name()]
            os.kill(p2pd.pid, signal.SIGKILL)
            seconds = await until(channels[1], "restarts", 1, 30)
            seconds += await until(channels[1], "peers", 1, 30)
            print(f"from the death of p2pd to a peer again: {seconds:.2f} s")
            again, _ = await published(channels[1], 2, sequence=2)
            await found_and_fetched(channels[2], channels[1], again)
            pids = [pid for _, pid in nodes]
            everybody = [child for pid in pids for child in psutil.Process(pid).children()]
        gone, alive = psutil.wait_procs(everybody, timeout=10)
        assert len(gone) == 3
        assert not alive

    asyncio.run(scenario())


async def found_and_fetched(reader: Channel, publisher: Channel, made: Any) -> float:
    begun = time.monotonic()
    request = encode_fetch_request(FetchRequest(SWARM, bundle_id(made.header_bytes), (0, 1)))
    (holder,) = await publisher.call("holders", {}, 10)
    while time.monotonic() - begun < 40:
        found = await reader.call("discover", {"count": 8}, 30)
        if any(bundle_id(made.header_bytes) in data for data, _ in found):
            break
        await asyncio.sleep(0.2)
    answer = await reader.call("fetch", {"holder": holder, "request": request}, 60)
    assert decode_fetch_response(answer).groups == tuple(enumerate(made.group_bytes))
    return time.monotonic() - begun


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_no_p2pd_is_left_when_the_process_is_ended(ending: signal.Signals, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with real_process(1, tmp_path) as (channel, pid):
            await channel.call("start", order(1, tmp_path), 130)
            children = psutil.Process(pid).children()
            assert len(children) == 1
            os.kill(pid, ending)
            _, alive = await asyncio.to_thread(psutil.wait_procs, children, 10)
            assert not alive

    asyncio.run(scenario())
