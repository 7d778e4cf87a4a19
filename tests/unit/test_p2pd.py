"""p2pd: what it opens, ports, files, and its end, however it or its parent ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from swarmnode.network import p2pd
from swarmnode.network.hivemind_calls import PendingCalls
from swarmnode.network.hivemind_dht import HivemindPeer
from swarmnode.network.p2pd import NICENESS, PROBE_SECONDS, arguments
from swarmnode.network.p2pd_files import socket_folder, sweep
from swarmnode.network.ports import StartFailed, hold_ports
from tests.unit.dht_support import order, peers, run
from tests.unit.network_members import peer_id


def names(folder: Path) -> set[str]:
    """First words of the names in a folder."""
    return {path.name.split("-")[0] for path in folder.iterdir()}


def test_a_stopped_p2pd_is_noticed_and_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 3 * PROBE_SECONDS <= 15, "one wait and two probes, in the worst case"
    monkeypatch.setattr(p2pd, "PROBE_SECONDS", 0.5)
    monkeypatch.setattr(p2pd, "_TERMINATE_SECONDS", 0.5)

    async def scenario() -> None:
        async with peers(order(1, tmp_path)) as (stopped,):
            os.kill(stopped.process_id, signal.SIGSTOP)
            await asyncio.wait_for(stopped.died.wait(), 20)

    run(scenario)


def test_after_a_close_nothing_is_left_and_no_key_lies_about_meanwhile(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with peers(order(1, tmp_path)) as (peer,):
            # Where this path is too long for sockets they are elsewhere.
            assert names(tmp_path) <= {"hivemind"}, "no key"
            await peer.close()
            await peer.close()
            assert peer.died.is_set()

    run(scenario)
    assert not list(tmp_path.iterdir())


def test_a_port_in_use_is_refused_with_the_name_of_the_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
            listen = (f"/ip4/127.0.0.1/tcp/{port}",)
            with pytest.raises(
                StartFailed, match=f"port {port}/tcp is in use by process {os.getpid()}"
            ):
                await HivemindPeer.start(order(1, tmp_path, listen=listen))
        async with peers(order(1, tmp_path, listen=listen)) as (peer,):
            assert f"/tcp/{port}/" in peer.addresses[0]
            with pytest.raises(StartFailed, match=f"port {port}/tcp is in use"):
                await HivemindPeer.start(order(2, tmp_path, listen=listen))
            assert not peer.died.is_set()

    run(scenario)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="the claim is a name that only Linux has")
def test_a_claimed_port_is_refused_before_anybody_listens_on_it() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    held = hold_ports([f"/ip4/127.0.0.1/tcp/{port}"])
    with pytest.raises(StartFailed, match=f"port {port}/tcp is in use"):
        hold_ports([f"/ip4/127.0.0.1/tcp/{port}"])
    hold_ports([f"/ip4/127.0.0.1/udp/{port}/quic-v1"]).release()
    held.release()
    hold_ports([f"/ip4/127.0.0.1/tcp/{port}"]).release()


def test_a_port_that_needs_privileges_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_somebody_else(_socket: socket.socket, address: object) -> None:
        if isinstance(address, tuple):  # a claim is a name of the kernel
            raise PermissionError

    # These tests may run as root, or where every port is for everybody.
    monkeypatch.setattr(socket.socket, "bind", as_somebody_else)
    with pytest.raises(StartFailed, match="port 80 needs privileges; choose one above 1023"):
        hold_ports(["/ip4/127.0.0.1/tcp/80"])


@pytest.mark.parametrize("address", ["", "/ip4/127.0.0.1", "/ip4/127.0.0.1/tcp/x", "tcp"])
def test_what_is_no_address_to_listen_on_is_said_so(address: str) -> None:
    with pytest.raises(StartFailed, match="not an address to listen on"):
        hold_ports([address])


def test_what_p2pd_says_at_a_failed_start_is_told_in_one_line(tmp_path: Path) -> None:
    async def scenario() -> None:
        with pytest.raises(StartFailed) as caught:
            await HivemindPeer.start(order(1, tmp_path, listen=("/ip4/203.0.113.1/tcp/0",)))
        assert "\n" not in str(caught.value)
        assert "listen" in str(caught.value)

    run(scenario)
    assert not list(tmp_path.iterdir())


def test_p2pd_ends_by_itself_when_its_parent_is_killed(tmp_path: Path) -> None:
    code = (
        "import asyncio, pathlib, sys\n"
        "from swarmnode.network.hivemind_dht import HivemindPeer\n"
        "from swarmnode.network.peer_order import PeerOrder\n"
        "async def main():\n"
        "    order = PeerOrder(bytes(range(32)), bytes(32), pathlib.Path(sys.argv[1]))\n"
        "    print((await HivemindPeer.start(order)).process_id, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    with parent.stdout:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        parent.wait()
        child.wait(timeout=60)


def test_sockets_of_dead_processes_are_swept_and_others_are_not(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX) as dead,
        socket.socket(socket.AF_UNIX) as alive,
        socket.socket(socket.AF_UNIX) as foreign,
    ):
        dead.bind(str(tmp_path / "hivemind-p2pd-dead.sock"))
        alive.bind(str(tmp_path / "hivemind-p2pclient-alive.sock"))
        alive.listen()
        foreign.bind(str(tmp_path / "other.sock"))
    (tmp_path / "hivemind-p2pd-file.sock").write_text("not a socket")
    (tmp_path / f"identity-{os.getpid()}-00").write_text("of a living process")
    (tmp_path / "identity-99999999-00").write_text("of a dead process")
    with socket.socket(socket.AF_UNIX) as alive:
        (tmp_path / "hivemind-p2pclient-alive.sock").unlink()
        alive.bind(str(tmp_path / "hivemind-p2pclient-alive.sock"))
        alive.listen()
        assert sweep(tmp_path, time.time()) == 1, "what is younger than a moment may yet listen"
        assert sweep(tmp_path, time.time() + 60) == 1
    left = {path.name for path in tmp_path.iterdir()}
    assert "hivemind-p2pd-dead.sock" not in left
    assert "identity-99999999-00" not in left
    assert len(left) == 4


def test_sockets_move_to_the_folder_for_temporary_files_where_their_path_is_too_long(
    tmp_path: Path,
) -> None:
    deep = tmp_path / ("d" * 120)
    assert socket_folder(tmp_path / "home") != deep
    assert socket_folder(deep).is_dir()
    deep.mkdir()

    async def scenario() -> None:
        async with peers(order(1, deep)) as (peer,):
            assert names(deep) == set()
            assert await peer.connected() == []

    run(scenario)


def test_an_answer_to_a_call_that_was_given_up_waits_for_nobody() -> None:
    async def scenario() -> None:
        calls = PendingCalls()
        calls["waiting"] = asyncio.Future()
        calls["given up"] = asyncio.Future()
        calls["given up"].cancel()
        assert [each for each in calls if each in calls] == ["waiting"]

    run(scenario)


@pytest.mark.parametrize(
    ("changes", "on"),
    [
        ({"client": True}, {"dhtClient"}),
        ({"client": False}, {"dhtServer"}),
        ({"public": True, "client": True}, {"dhtClient", "autonat", "relay"}),
        (
            {"relay": True, "client": False},
            {"dhtServer", "autonat", "relay", "relayService", "forceReachabilityPublic"},
        ),
    ],
)
def test_p2pd_opens_only_what_was_asked_for(
    tmp_path: Path, changes: dict[str, bool], on: set[str]
) -> None:
    flags = dict(
        flag.removeprefix("-").split("=", 1)
        for flag in arguments(order(1, tmp_path, **changes), tmp_path / "i", tmp_path / "c")
    )
    switches = {name for name, value in flags.items() if value == "1"}
    assert switches == on | {
        *("connManager", "tls", "noise"),
        *("pubsub", "pubsubSign", "pubsubSignStrict"),
    }
    off = {"natPortMap", "relayService", "autonat", "relay", "autoRelay", "pprof", "b"}
    assert off - on == {name for name in off if flags[name] == "0"}
    assert flags["hostAddrs"] == "/ip4/127.0.0.1/tcp/0"
    assert "bootstrapPeers" not in flags


def test_a_public_relay_that_knows_others_starts(tmp_path: Path) -> None:
    async def scenario() -> None:
        known = (f"/ip4/127.0.0.1/tcp/9/p2p/{peer_id(9)}",)
        both = order(1, tmp_path, public=True, relay=True, bootstrap=known)
        async with peers(both) as (peer,):
            assert peer.addresses

    run(scenario)


def test_by_default_p2pd_listens_on_this_machine_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with peers(order(1, tmp_path, client=True)) as (peer,):
            sockets = psutil.Process(peer.process_id).net_connections("inet")
            hosts = {each.laddr.ip for each in sockets}
            assert hosts == {"127.0.0.1"}

    run(scenario)


def niceness_of_its_session(process_id: int) -> int | None:
    """None where processors are not shared out by sessions."""
    group = Path(f"/proc/{process_id}/autogroup")
    return int(group.read_text("ascii").split()[-1]) if group.exists() else None


def test_p2pd_comes_after_training_where_strangers_keep_it_busy(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with peers(order(1, tmp_path)) as (peer,):
            process = psutil.Process(peer.process_id)
            assert "p2pd" in process.name()
            assert process.nice() == min(19, os.nice(0) + NICENESS)
            assert niceness_of_its_session(peer.process_id) in (None, NICENESS)

    run(scenario)
