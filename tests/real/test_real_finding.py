"""Finding a swarm by peers alone: exchange where nobody has a DHT, and what was saved before."""

from __future__ import annotations

import importlib.util
import signal
import time
from pathlib import Path

import pytest

from swarmnode.sim.real import RealNode
from tests.real.real_support import (
    Place,
    everybody,
    exceptions,
    patience,
    peers_of,
    place,
    signal_all,
    until,
    wait_connected,
)

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.util.find_spec("libp2p") is None, reason="the extra libp2p is not installed"
    ),
]

FOUND_SECONDS = 60.0
"""A peer is asked 5 s after the start, then every 20 s, and names whom it has dialled back."""


def on(library: str) -> tuple[str, ...]:
    """The option."""
    return ("--set", f"network.transport={library}")


def knowing(address: str) -> tuple[str, ...]:
    """The option of a bootstrap peer that begins at another."""
    return ("--set", f'network.bootstrap=["{address}"]')


def near(node: RealNode) -> set[str]:
    """Ids of those that it is connected to."""
    return {each.peer for each in peers_of(node).peers if each.connected}


def id_of(node: RealNode) -> str:
    """By its status."""
    status = node.status()
    assert status
    return status.node.peer_id


def wait_near(node: RealNode, other: str, seconds: float = FOUND_SECONDS) -> float:
    """Wait until it is connected to a peer; how long that took."""
    begun = time.monotonic()
    what = f"{node.home.path.name} is connected to {other}"
    until(lambda: other in near(node), patience(seconds), what)
    return time.monotonic() - begun


def test_a_silent_swarm_without_a_dht_is_found_by_one_peer_of_it(tmp_path: Path) -> None:
    with place(tmp_path) as here:
        middle, address = here.bootstrap("middle", *on("libp2p"))
        first, _ = here.bootstrap("first", *on("libp2p"), *knowing(address))
        wait_near(first, id_of(middle))
        last, _ = here.bootstrap("last", *on("libp2p"), *knowing(address))
        took = wait_near(last, id_of(first))
        print(f"found by the one peer that it knew after {took:.0f} s")
        assert id_of(first) not in address
        signal_all(everybody(middle), signal.SIGKILL)
        until(lambda: near(last) == {id_of(first)}, patience(60), "the two without the one between")
        for node in (first, last):
            assert exceptions(node) == []


@pytest.mark.parametrize("libraries", [("hivemind", "libp2p"), ("libp2p", "hivemind")])
def test_whom_a_node_knew_on_one_library_it_finds_again_on_the_other(
    tmp_path: Path, libraries: tuple[str, str]
) -> None:
    before, after = libraries
    with place(tmp_path) as here:
        peer, address = here.bootstrap("peer", *on("libp2p"))
        node = here.run("node", address, *on(before))
        assert wait_connected(node).network.transport == before
        ended(here, node)
        again = here.run("node", *on(after))
        status = wait_connected(again)
        assert status.network.transport == after
        assert status.network.bootstrap == ()
        print(f"{after} after {before}: found again after {wait_near(again, id_of(peer)):.0f} s")
        assert exceptions(again) == []


def ended(here: Place, node: RealNode) -> None:
    """In order: what it knows is written."""
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(patience(60)) == 0
    here.nodes.remove(node)
