"""M13: what is open to other machines is seen on the processes themselves, and judged.

The node of the last test is a real one, with the defaults.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from swarmnode.doctor import Exposure, Result, exposure_checks, exposure_of
from swarmnode.home import Home
from swarmnode.network.hivemind_dht import HivemindPeer
from swarmnode.paths import HOME_VARIABLE
from tests.real.real_support import place, wait_connected
from tests.unit.dht_support import order

CLOSED = Exposure(processes=5, listeners=(), mapping=(), switches=(), asked=())
LISTENS = "p2pd tcp 0.0.0.0:4001"
LISTENER = """
import socket, sys
with socket.socket(socket.AF_INET, getattr(socket, sys.argv[2])) as each:
    each.bind((sys.argv[1], 0))
    if sys.argv[2] == "SOCK_STREAM":
        each.listen()
    print(each.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@contextmanager
def listening(host: str, kind: str) -> Iterator[int]:
    """A child of ours that listens there, and its port."""
    child = subprocess.Popen(
        [sys.executable, "-c", LISTENER, host, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        assert child.stdout is not None
        yield int(child.stdout.readline())
        child.kill()


@pytest.mark.parametrize(
    ("exposure", "results"),
    [
        (CLOSED, (Result.OK, Result.OK)),
        (replace(CLOSED, listeners=(LISTENS,)), (Result.FAILED, Result.OK)),
        (
            replace(CLOSED, listeners=(LISTENS,), asked=("/ip4/0.0.0.0/tcp/4001",)),
            (Result.WARNING, Result.OK),
        ),
        (replace(CLOSED, mapping=("p2pd udp 10.0.0.2:5",)), (Result.OK, Result.FAILED)),
        (replace(CLOSED, switches=("natPortMap",)), (Result.OK, Result.FAILED)),
        (replace(CLOSED, switches=("relay", "autonat")), (Result.OK, Result.WARNING)),
    ],
)
def test_what_nobody_asked_for_is_a_failure(
    exposure: Exposure, results: tuple[Result, Result]
) -> None:
    found = exposure_checks(exposure)
    assert tuple(each.result for each in found) == results
    assert all(each.fix for each in found if each.result is not Result.OK)


def test_without_a_node_nothing_is_claimed() -> None:
    (found,) = exposure_checks(None)
    assert found.result is Result.WARNING


@pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
def test_a_listener_of_a_child_is_seen_unless_it_is_on_loopback(kind: str) -> None:
    with listening("0.0.0.0", kind) as port:
        told = exposure_of(os.getpid()).listeners
        assert [each for each in told if each.endswith(f"0.0.0.0:{port}")]
    with listening("127.0.0.1", kind) as port:
        told = exposure_of(os.getpid()).listeners
        assert not [each for each in told if each.endswith(f":{port}")]


def test_what_a_node_without_p2pd_was_told_to_listen_on_was_asked_for() -> None:
    with listening("0.0.0.0", "SOCK_STREAM"):
        loopback = "/ip4/127.0.0.1/tcp/4001/p2p/12D3KooW"
        assert exposure_of(os.getpid(), [loopback]).asked == []
        told = exposure_of(os.getpid(), [loopback, "/ip4/192.0.2.1/tcp/4001/p2p/12D3KooW"])
        assert len(told.asked) == 1
        assert [each.result for each in exposure_checks(told)] == [Result.WARNING, Result.OK]
        (_, relaying) = exposure_checks(exposure_of(os.getpid(), [], ["relay"]))
        assert (relaying.result, relaying.found) == (
            Result.WARNING,
            "the network runs with network.relay",
        )


def test_a_socket_that_speaks_to_a_routers_port_mapping_is_seen() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as speaking:
        speaking.connect(("127.0.0.1", 5351))
        assert exposure_of(os.getpid()).mapping
    assert not exposure_of(os.getpid()).mapping


def test_what_p2pd_was_told_is_read_from_its_command_line(tmp_path: Path) -> None:
    async def scenario() -> tuple[Exposure, Exposure]:
        found = []
        for number, more in enumerate(({}, {"relay": True, "listen": ("/ip4/0.0.0.0/tcp/0",)})):
            peer = await HivemindPeer.start(replace(order(number + 1, tmp_path), **more))  # type: ignore[arg-type]
            try:
                found.append(await asyncio.to_thread(exposure_of, peer.process_id))
            finally:
                await peer.close()
        return found[0], found[1]

    closed, opened = asyncio.run(scenario())
    assert (closed.listeners, closed.mapping, closed.switches, closed.asked) == ([], [], [], [])
    assert opened.switches == ["autonat", "relay", "relayService"]
    assert opened.asked == ["/ip4/0.0.0.0/tcp/0"]
    assert opened.listeners


def asked_of_the_doctor(home: Home) -> dict[str, dict[str, str]]:
    """Its findings by name."""
    done = subprocess.run(
        [sys.executable, "-m", "swarmnode", "doctor", "--net", "--json", "--no-train"],
        env={**os.environ, HOME_VARIABLE: str(home.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return {each["name"]: each for each in json.loads(done.stdout)}


@pytest.mark.real
@pytest.mark.timeout(600)
def test_a_node_with_the_defaults_opens_nothing_to_other_machines(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        bootstrap, address = here.bootstrap()
        node = here.run("node", address)
        wait_connected(node)
        for home, processes in ((node.home, 5), (bootstrap.home, 3)):
            found = asked_of_the_doctor(home)
            assert found["open-to-others"]["result"] == "ok", found["open-to-others"]
            assert int(found["open-to-others"]["found"].split()[0]) >= processes, "all of them"
            assert found["upnp-and-relay"]["result"] == "ok", found["upnp-and-relay"]
