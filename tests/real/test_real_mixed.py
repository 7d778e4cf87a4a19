"""One swarm of nodes on hivemind and nodes on py-libp2p, and a node that has no hivemind at all."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from swarmnode.observe.status import StatusDocument
from swarmnode.sim.real import RealNode
from tests.real.elsewhere import python_elsewhere
from tests.real.real_support import (
    START_SECONDS,
    assert_no_round_lost,
    connected,
    everybody,
    exceptions,
    patience,
    place,
    process_of,
    rounds_after,
    running,
    said,
    signal_all,
    until,
    wait_connected,
    wait_for_others,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        importlib.util.find_spec("libp2p") is None, reason="the extra libp2p is not installed"
    ),
]

OF_EACH = int(os.environ.get("SWARMNODE_TEST_NODES", "8")) // 2
"""Nodes on either library."""
ROUND_SECONDS = 6.0
BACK_SECONDS = 20.0
LIBP2P = ("--set", "network.transport=libp2p")


@dataclass(frozen=True)
class Mixed:
    """Nodes by library, and the bootstrap peer, which runs on hivemind."""

    bootstrap: RealNode
    address: str
    hivemind: list[RealNode]
    libp2p: list[RealNode]

    @property
    def nodes(self) -> list[RealNode]:
        """All that train."""
        return [*self.hivemind, *self.libp2p]


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    out = tmp_path_factory.mktemp("mixed")
    with place(out, f"daemon.shortest_round_seconds={ROUND_SECONDS}") as here:
        bootstrap, address = here.bootstrap()
        first = here.run("h0", address)
        # The others find its warm start in the cache.
        until(lambda: connected(first), patience(START_SECONDS), "the first node")
        hivemind = [first, *(here.run(f"h{number}", address) for number in range(1, OF_EACH))]
        libp2p = [here.run(f"l{number}", address, *LIBP2P) for number in range(OF_EACH)]
        swarm = Mixed(bootstrap, address, hivemind, libp2p)
        until(
            lambda: all(map(connected, swarm.nodes)),
            patience(2 * START_SECONDS),
            f"{2 * OF_EACH} nodes in the swarm",
            every=1.0,
        )
        yield swarm


def names_of(nodes: list[RealNode]) -> set[str]:
    """The names by which reports have these nodes' groups."""
    found = {status.node.public_key[:16] for node in nodes if (status := node.status())}
    assert len(found) == len(nodes)
    return found


def trained_on_both(mixed: Mixed, node: RealNode, since: float) -> bool:
    """Whether its rounds since a moment had groups of either kind."""
    sources = {peer for report in rounds_after(node, since) for peer in report.sources}
    return all(sources & names_of(kind) for kind in (mixed.hivemind, mixed.libp2p))


def test_each_status_says_what_the_node_runs_on(mixed: Mixed) -> None:
    for kind, nodes in (("hivemind", mixed.hivemind), ("libp2p", mixed.libp2p)):
        for node in nodes:
            status = wait_connected(node)
            assert status.network.transport == kind
            network = process_of(node, "network")
            assert network is not None
            children = [child.name() for child in psutil.Process(network).children()]
            assert ("p2pd" in children) == (kind == "hivemind")


def test_every_node_trains_on_groups_of_both_kinds_within_a_few_rounds(mixed: Mixed) -> None:
    begun = time.time()
    until(
        lambda: all(trained_on_both(mixed, node, begun) for node in mixed.nodes),
        patience(3 * ROUND_SECONDS + 30),
        "groups of both kinds in every node's rounds",
        every=1.0,
    )
    counts = [len(rounds_after(node, begun)) for node in mixed.nodes]
    print(f"all trained on both kinds after {time.time() - begun:.0f} s, rounds {counts}")
    for node in mixed.nodes:
        assert exceptions(node) == []
        assert_no_round_lost(node)


def test_it_goes_on_when_the_bootstrap_peer_dies(mixed: Mixed) -> None:
    signal_all(everybody(mixed.bootstrap), signal.SIGKILL)
    moment = time.time() + 20
    time.sleep(20)  # what was fetched from it before is used up
    until(
        lambda: all(trained_on_both(mixed, node, moment) for node in mixed.nodes),
        patience(6 * ROUND_SECONDS + 30),
        "groups of both kinds without the bootstrap peer",
        every=1.0,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_network_process_on_libp2p_that_is_gone_is_back_in_time(
    mixed: Mixed, number: signal.Signals
) -> None:
    node = mixed.libp2p[0]
    network = process_of(node, "network")
    assert network is not None
    os.kill(network, number)
    begun = time.monotonic()

    def back() -> StatusDocument | None:
        status = running(node, 0)
        fresh = status and process_of(node, "network") not in (None, network)
        return status if fresh and status and status.network.state == "connected" else None

    until(back, patience(BACK_SECONDS), "the network process is back in the swarm")
    print(f"back {time.monotonic() - begun:.1f} s after {number.name}")
    wait_for_others(node, time.time())


def test_a_node_without_hivemind_joins_by_a_bootstrap_peer_that_has_it(
    mixed: Mixed, tmp_path: Path
) -> None:
    bare = python_elsewhere(tmp_path / "bare", without="hivemind")
    with place(tmp_path / "place", f"daemon.shortest_round_seconds={ROUND_SECONDS}") as here:
        status = wait_connected(mixed.hivemind[0])
        node = here.run("bare", status.network.addresses[0], python=bare)
        assert wait_connected(node).network.transport == "libp2p"
        wait_for_others(node)
        assert exceptions(node) == []
        log = "".join(path.read_text("utf-8", "replace") for path in node.home.log.iterdir())
        assert "what the network runs on" in log
        assert node.process.poll() is None, said(node)
