"""Nodes behind routers that nobody can dial: address translation in user space, by slirp4netns.

Each laptop is in a namespace behind a router of its own, both routers and the bootstrap peer on one
switch, at addresses of the internet: AutoNAT and relays take no others. Nothing leaves the switch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from swarmnode.observe.status import StatusDocument
from swarmnode.sim.real import RealNode
from tests.real.namespaces import behind_router, python_in, switched
from tests.real.real_support import (
    Place,
    assert_no_round_lost,
    connected,
    exceptions,
    patience,
    peers_of,
    place,
    skip_without_libp2p,
    until,
    wait_connected,
    wait_for_others,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

SERVER = "11.0.0.1"
LAPTOPS = ("laptop0", "laptop1")
HIVEMIND, LIBP2P = "hivemind", "libp2p"
REACH_SECONDS = 120.0
"""AutoNAT asks 15 s after the start, and more than once."""


@contextmanager
def laptops(
    tmp_path: Path, here: Place, *options: str, libraries: Sequence[str] = (HIVEMIND,) * 3
) -> Iterator[list[RealNode]]:
    """A bootstrap peer that relays, which comes first, and two nodes behind routers."""
    on = [("--set", f"network.transport={library}") for library in libraries]
    with ExitStack() as stack:
        outside = stack.enter_context(switched([f"{SERVER}/24", "11.0.0.2/24", "11.0.0.3/24"]))
        inside = [
            stack.enter_context(behind_router(router, f"swarmnode-inside{number}"))
            for number, router in enumerate(outside[1:])
        ]
        relaying = ("--listen", f"/ip4/{SERVER}/tcp/4001", "--set", "network.relay=true")
        bootstrap, address = here.bootstrap(
            "bootstrap", *relaying, *on[0], python=python_in(outside[0], tmp_path)
        )
        nodes = [
            here.run(name, address, *options, *chosen, python=python_in(inside[number], tmp_path))
            for number, (name, chosen) in enumerate(zip(LAPTOPS, on[1:], strict=True))
        ]
        for node in nodes:
            wait_connected(node)
        yield [bootstrap, *nodes]
        here.ended()


def reach(node: RealNode, wanted: str) -> StatusDocument:
    """Wait until the status says so."""

    def told() -> StatusDocument | None:
        status = connected(node)
        return status if status and status.network.reach == wanted else None

    return until(told, patience(REACH_SECONDS), f"{node.home.path.name} is {wanted}")


def test_two_laptops_behind_routers_train_on_each_others_groups_through_a_bootstrap_peer(
    tmp_path: Path,
) -> None:
    with place(tmp_path) as here, laptops(tmp_path, here) as (bootstrap, *nodes):
        for node in nodes:
            wait_for_others(node, seconds=90)
            status = reach(node, "unreachable")
            print(status.network.reach, status.network.addresses)
            assert "not-reachable" in {each.code for each in status.warnings}
            near = [each for each in peers_of(node).peers if each.connected]
            assert len(near) == 1, "the bootstrap peer alone"
            assert_no_round_lost(node)
            assert exceptions(node) == []
        assert exceptions(bootstrap) == []


@pytest.mark.parametrize(
    "libraries",
    [
        (HIVEMIND, HIVEMIND, HIVEMIND),
        (HIVEMIND, LIBP2P, LIBP2P),
        (LIBP2P, LIBP2P, LIBP2P),
        (LIBP2P, HIVEMIND, LIBP2P),
    ],
    ids="-".join,
)
def test_two_laptops_behind_routers_are_connected_through_a_relay_where_they_ask_for_it(
    tmp_path: Path, libraries: tuple[str, str, str]
) -> None:
    skip_without_libp2p(libraries)
    options = ("--public", "--listen", "/ip4/0.0.0.0/tcp/0")
    with (
        place(tmp_path) as here,
        laptops(tmp_path, here, *options, libraries=libraries) as (bootstrap, *nodes),
    ):
        relay = bootstrap.status()
        assert relay
        begun = time.monotonic()
        for node in nodes:
            status = reach(node, "relayed")
            print(status.network.reach, status.network.relays, status.network.addresses)
            assert status.network.relays == (relay.node.peer_id,)
        print(f"both relayed {time.monotonic() - begun:.0f} s after they were connected")

        def through_relay(node: RealNode) -> list[str]:
            known = peers_of(node).peers
            return [each.address for each in known if "/p2p-circuit" in each.address]

        found = until(lambda: through_relay(nodes[0]), patience(120), "the other laptop, relayed")
        print(f"relayed connection after {time.monotonic() - begun:.0f} s: {found}")
        moment = time.time()
        for node in nodes:
            wait_for_others(node, moment, seconds=90)
            assert_no_round_lost(node)
            assert exceptions(node) == []
