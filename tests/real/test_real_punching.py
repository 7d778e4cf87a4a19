"""Holes punched by either library: two peers behind routers, connected without the relay.

The routers are the kernel's own address translation in namespaces, which drop whatever was not
asked for. p2pd believes an address of its own once four peers at addresses of their own have seen
it there; so there are four relays.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from swarmnode.sim.real import RealNode
from tests.real.gossip_nodes import Node
from tests.real.namespaces import behind_linux_router, python_in, switched
from tests.real.real_support import (
    assert_no_round_lost,
    exceptions,
    patience,
    peers_of,
    place,
    skip_without_libp2p,
    until,
    wait_connected,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

SERVERS = tuple(f"11.0.0.{number}" for number in range(1, 5))
ROUTERS = ("11.0.0.11", "11.0.0.12")
RELAYED_SECONDS = 60.0
"""AutoNAT asks 15 s after the start."""
PUNCH_SECONDS = 30.0
HIVEMIND, LIBP2P = "hivemind", "libp2p"


@contextmanager
def machines(servers: int = len(SERVERS)) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Namespaces of servers on the internet, and of two laptops behind routers of their own."""
    with ExitStack() as stack:
        addresses = [f"{each}/24" for each in (*SERVERS[:servers], *ROUTERS)]
        outside = stack.enter_context(switched(addresses))
        inside = [
            stack.enter_context(behind_linux_router(router, f"swarmnode-inside{number}"))
            for number, router in enumerate(outside[servers:])
        ]
        yield outside[:servers], inside


class Lone:
    """A peer in a namespace; see tests/real/punching.py."""

    def __init__(self, name: str, library: str, *arguments: object) -> None:
        module = ["-m", "tests.real.punching", library, *map(str, arguments)]
        process = subprocess.Popen(
            ["ip", "netns", "exec", name, sys.executable, *module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._node = Node(process)
        self.peer_id, [self.address, *_] = json.loads(self._node.answer())

    def ask(self, line: str) -> Any:
        """What it answers."""
        return json.loads(self._node.ask(line))

    def circuit(self) -> str:
        """Its address by way of a relay, "" for none."""
        return next((each for each in self.ask("addresses")[1] if "/p2p-circuit" in each), "")

    def directly(self, other: Lone) -> str:
        """Where it is connected to another without a relay, "" where it isn't."""
        for peer_id, address in self.ask("connected"):
            if peer_id == other.peer_id and "/p2p-circuit" not in address:
                return str(address)
        return ""

    def end(self) -> None:
        """At once."""
        with self._node.process as process:
            process.kill()


@pytest.mark.parametrize(
    "libraries",
    [
        (HIVEMIND, HIVEMIND, HIVEMIND),
        (HIVEMIND, LIBP2P, LIBP2P),
        (HIVEMIND, LIBP2P, HIVEMIND),
        (HIVEMIND, HIVEMIND, LIBP2P),
        (LIBP2P, HIVEMIND, HIVEMIND),
        (LIBP2P, LIBP2P, LIBP2P),
        (LIBP2P, LIBP2P, HIVEMIND),
    ],
    ids="-".join,
)
def test_two_whom_a_relay_connects_are_connected_without_it_soon_after(
    tmp_path: Path, libraries: tuple[str, str, str]
) -> None:
    skip_without_libp2p(libraries)
    of_relays, *of_laptops = libraries
    with machines() as (outside, inside), ExitStack() as stack:
        relays = []
        for number, name in enumerate(outside):
            listen = f"/ip4/{SERVERS[number]}/tcp/4001"
            relays.append(Lone(name, of_relays, 1 + number, tmp_path, listen, "relay"))
            stack.callback(relays[-1].end)
        known = [each.address for each in relays]
        laptops = []
        for number, (name, library) in enumerate(zip(inside, of_laptops, strict=True)):
            listen = "/ip4/0.0.0.0/tcp/4001"
            laptops.append(Lone(name, library, 11 + number, tmp_path, listen, "public", *known))
            stack.callback(laptops[-1].end)
        one, two = laptops
        for each in laptops:
            assert all(each.ask(f"connect {address}") for address in known)
            until(each.circuit, patience(RELAYED_SECONDS), "a place at a relay", every=1.0)
        assert one.ask(f"connect {two.circuit()}")
        begun = time.monotonic()
        found = until(lambda: one.directly(two), patience(PUNCH_SECONDS), "a direct connection")
        print(f"{libraries}: at {found}, after {time.monotonic() - begun:.1f} s")
        assert found.split("/")[2] == ROUTERS[1]
        assert two.directly(one).split("/")[2] == ROUTERS[0]


def address_of(node: RealNode, other: RealNode) -> str:
    """At which `node` is connected to the other, "" where it isn't."""
    status = other.status()
    found = [each for each in peers_of(node).peers if status and each.peer == status.node.peer_id]
    return found[0].address if found else ""


def test_two_laptops_on_py_libp2p_stay_connected_when_their_relay_is_gone(tmp_path: Path) -> None:
    skip_without_libp2p([LIBP2P])
    with machines(1) as ([outside], inside), place(tmp_path) as here:
        on = ("--set", f"network.transport={LIBP2P}")
        listen = ("--listen", f"/ip4/{SERVERS[0]}/tcp/4001", "--set", "network.relay=true")
        server, address = here.bootstrap(
            "server", *listen, *on, python=python_in(outside, tmp_path)
        )
        public = ("--public", "--listen", "/ip4/0.0.0.0/tcp/4001")
        one, two = (
            here.run(f"laptop{number}", address, *public, *on, python=python_in(name, tmp_path))
            for number, name in enumerate(inside)
        )
        for node in (one, two):
            wait_connected(node)
        begun = time.monotonic()

        def direct() -> bool:
            ways = [address_of(one, two), address_of(two, one)]
            return all(each and "/p2p-circuit" not in each for each in ways)

        until(direct, patience(RELAYED_SECONDS + PUNCH_SECONDS), "a direct connection")
        print(f"connected directly after {time.monotonic() - begun:.0f} s")
        server.process.terminate()
        server.process.wait(patience(30))
        moment = time.monotonic()
        until(lambda: time.monotonic() - moment > 15.0 and direct(), 30, "still connected")
        for node in (one, two):
            assert_no_round_lost(node)
            assert exceptions(node) == []
        here.ended()
