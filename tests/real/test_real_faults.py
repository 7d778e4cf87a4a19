"""What breaks beside a node's training: its network process, its bootstrap peers, its twin.

One swarm of three nodes, whose first two bootstrap peers are dead and silent ones. Source:
swarm-sampling.md section 3, T1, T2, T3 and T6.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from swarmnode.sim.real import RealNode
from tests.real.real_support import (
    Place,
    address_of,
    assert_no_round_lost,
    connected,
    free_port,
    made_home,
    patience,
    place,
    process_of,
    rounds_after,
    running,
    silent_port,
    until,
    wait_connected,
    wait_for_others,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

BUSY = ("daemon.shortest_round_seconds=0.1", "rounds.questions_per_round=16")
"""For the node that is broken: it is in a round nearly all of the time."""


@dataclass(frozen=True)
class Swarm:
    """The swarm of this module."""

    place: Place
    bootstrap: RealNode
    address: str
    nodes: list[RealNode]


@pytest.fixture(scope="module")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    out = tmp_path_factory.mktemp("faults")
    with ExitStack() as stack:
        silent = address_of(stack.enter_context(silent_port()), made_home(out / "silent")[1])
        dead = address_of(free_port(), made_home(out / "dead")[1])
        bad = f'network.bootstrap=["{dead}", "{silent}"]'
        here = stack.enter_context(place(out, bad, "daemon.checkpoint_seconds=5"))
        bootstrap, address = here.bootstrap()
        sets = [word for each in BUSY for word in ("--set", each)]
        nodes = [here.run("0", address, *sets), here.run("1", address), here.run("2", address)]
        for node in nodes:
            wait_connected(node)
            wait_for_others(node)
        yield Swarm(here, bootstrap, address, nodes)


def test_nodes_with_a_dead_and_a_silent_bootstrap_peer_join_through_the_third(
    swarm: Swarm,
) -> None:
    for node in swarm.nodes:
        status = connected(node)
        assert status
        told = {each.address: each for each in status.network.bootstrap}
        assert len(told) == 3
        assert told[swarm.address].connected
        assert sum(each.connected for each in told.values()) == 1
        assert_no_round_lost(node)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
@pytest.mark.parametrize("part", ["network", "p2pd"])
def test_no_round_is_lost_while_the_network_is_broken_and_the_node_rejoins_within_20_s(
    swarm: Swarm, part: str, number: signal.Signals
) -> None:
    node = swarm.nodes[0]
    before = wait_connected(node, 20)
    process = until(lambda: process_of(node, part), patience(10), f"the process id of {part}")
    broken, begun = time.time(), time.monotonic()
    os.kill(process, number)

    def told() -> str | None:
        status = running(node)
        if status is None:
            return None
        restarted = status.network.restarts > before.network.restarts
        return status.summary if restarted or status.network.state != "connected" else None

    summary = until(told, patience(20), "the status says that the network is lost", 0.05)
    noticed = time.monotonic() - begun

    def rejoined() -> bool:
        status = connected(node)
        return bool(status and status.network.restarts > before.network.restarts)

    until(rejoined, patience(30), "connected again", 0.05)
    seconds = time.monotonic() - begun
    print(f"{part} {number.name}: noticed after {noticed:.1f} s ({summary}), back {seconds:.1f} s")
    meanwhile = [each for each in rounds_after(node, broken) if each.clock_seconds < time.time()]
    assert seconds < patience(20)
    # A p2pd that dies is replaced in about the time between two looks: then its restart is told.
    assert "training alone" in summary or (part, number) == ("p2pd", signal.SIGKILL)
    assert len(meanwhile) >= seconds / patience(4)
    wait_for_others(node, time.time())
    assert_no_round_lost(node)


def test_the_same_identity_twice_on_one_machine_is_refused_with_one_line(swarm: Swarm) -> None:
    owner = swarm.nodes[1]
    with_key = swarm.place.out / "copied"
    with_key.mkdir()
    shutil.copy(owner.home.key, with_key / "key")
    for home in (owner.home.path, with_key):
        refused = swarm.place.refused(home)
        assert refused.returncode == 3
        (line,) = refused.stderr.splitlines()
        assert str(owner.process.pid) in line
        assert not refused.stdout
    assert running(owner)


def test_a_node_whose_bootstrap_peers_are_all_dead_rejoins_through_saved_peers(
    swarm: Swarm,
) -> None:
    node = swarm.nodes[2]
    swarm.bootstrap.process.kill()
    swarm.bootstrap.process.wait()
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(patience(40)) == 0
    last, moment = node.reports()[-1].round, time.time()
    begun = time.monotonic()
    reborn = swarm.place.run("2", swarm.address)
    status = wait_connected(reborn)
    seconds = time.monotonic() - begun
    assert not any(each.connected for each in status.network.bootstrap)
    wait_for_others(reborn, moment)
    print(f"back through saved peers {seconds:.1f} s after the start")
    assert rounds_after(reborn, moment)[0].round == last + 1
    assert_no_round_lost(reborn)
    for each in swarm.nodes[:2]:
        assert running(each)
