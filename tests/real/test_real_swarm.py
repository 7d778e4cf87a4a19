"""Eight daemons and a bootstrap peer on loopback, started at once: one swarm, shared by all tests.

Source: swarm-sampling.md section 3, T3b, T5 and T7.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import pytest

from swarmnode.api.status import MAX_CONNECTIONS
from swarmnode.sim.real import RealNode, real_environment, real_swarm
from tests.real.real_support import (
    START_SECONDS,
    assert_no_round_lost,
    connected,
    everybody,
    exceptions,
    external,
    patience,
    peers_of,
    quick_settings,
    rounds_after,
    running,
    signal_all,
    until,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

STOPPED_SECONDS = 60.0
ROUND_SECONDS = 6.0
"""A round of a model worth training lasts as long on a laptop, or longer."""


@dataclass(frozen=True)
class Swarm:
    """The nodes, and the moment in seconds since 1970 at which each was found in the swarm."""

    nodes: list[RealNode]
    joined: list[float]


@pytest.fixture(scope="module")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Swarm]:
    out = tmp_path_factory.mktemp("swarm")
    settings = quick_settings(
        "simulation.nodes=8", f"daemon.shortest_round_seconds={ROUND_SECONDS}"
    )
    begun, joined = time.monotonic(), [0.0] * 8
    with real_swarm(settings, out, real_environment(os.environ, out / "cache")) as nodes:

        def all_joined() -> bool:
            for node in nodes:
                if not joined[node.number] and connected(node):
                    joined[node.number] = time.time()
            return all(joined)

        until(all_joined, patience(2 * START_SECONDS), "eight nodes in the swarm")
        print(f"eight nodes in the swarm {time.monotonic() - begun:.1f} s after their start")
        yield Swarm(list(nodes), joined)


def test_eight_nodes_started_at_once_are_one_connected_component_and_nobody_exits(
    swarm: Swarm,
) -> None:
    names = {status.node.peer_id for node in swarm.nodes if (status := connected(node))}
    assert len(names) == 8

    def component() -> bool:
        near: dict[str, set[str]] = {}
        for node in swarm.nodes:
            status = connected(node)
            if status is None:
                return False
            here = near.setdefault(status.node.peer_id, set())
            here |= {each.peer for each in peers_of(node).peers if each.connected} & names
        reached, edge = set[str](), [next(iter(names))]
        while edge:
            name = edge.pop()
            reached.add(name)
            edge += near[name] - reached
        return reached == names

    until(component, patience(30), "a way from each node to each other one")


def test_within_three_rounds_every_node_trained_on_groups_of_at_least_four_peers(
    swarm: Swarm,
) -> None:
    # The swarm is up when its last node has joined and published: before, others have less to take.
    def all_published() -> bool:
        return all(rounds_after(node, max(swarm.joined)) for node in swarm.nodes)

    until(all_published, patience(30), "a round of each node")
    up = max(rounds_after(node, max(swarm.joined))[0].clock_seconds for node in swarm.nodes)

    def three_rounds() -> bool:
        return all(len(rounds_after(node, up)) >= 3 for node in swarm.nodes)

    until(three_rounds, patience(30), "three rounds of each node")
    peers = {}
    for node in swarm.nodes:
        first = rounds_after(node, up)[: 3 if patience(1.0) == 1.0 else 6]
        peers[node.number] = len({peer for report in first for peer in report.sources})
        assert_no_round_lost(node)
    print(f"peers trained on in three rounds, by node: {peers}")
    assert min(peers.values()) >= 4


def test_status_clients_that_hang_or_flood_do_not_keep_a_node_from_training(swarm: Swarm) -> None:
    node, moment = swarm.nodes[0], time.time()
    path, end = str(node.home.status_socket), time.monotonic() + 15
    opened = 0
    while time.monotonic() < end:
        with ExitStack() as hanging:
            for number in range(2 * MAX_CONNECTIONS):
                client = hanging.enter_context(socket.socket(socket.AF_UNIX))
                client.settimeout(0.2)
                with suppress(OSError):
                    client.connect(path)
                    # One in three says nothing, one half a line, one never reads its answer.
                    client.sendall((b"", b"stat", b"status\n" * 20)[number % 3])
                    opened += 1
            time.sleep(0.5)
    rounds = rounds_after(node, moment)
    print(f"{opened} status clients in 15 s, {len(rounds)} rounds meanwhile")
    assert opened > 2 * MAX_CONNECTIONS
    assert len(rounds) >= 15 / patience(2 * ROUND_SECONDS)
    assert until(lambda: running(node), patience(15), "an answer to the next client")
    assert sum(map(external, rounds)) > 0
    assert exceptions(node) == []


def test_a_node_stopped_for_a_minute_has_groups_of_others_again_within_two_rounds(
    swarm: Swarm,
) -> None:
    node = swarm.nodes[1]
    processes = everybody(node)
    assert len(processes) >= 5
    signal_all(processes, signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    before = node.reports()[-1]
    moment = time.time()
    signal_all(processes, signal.SIGCONT)
    until(
        lambda: len(rounds_after(node, moment)) >= 8,
        patience(8 * ROUND_SECONDS + 30),
        "eight rounds",
    )
    # The first of them was under way when the node was stopped.
    rounds = rounds_after(node, moment)
    fresh = [each.metrics["collected/admitted"] for each in (before, *rounds)]
    first = next(place for place, count in enumerate(fresh) if count > fresh[0])
    print(f"admitted {fresh[:9]}, from others {[external(each) for each in rounds[:8]]}")
    assert first <= (3 if patience(1.0) == 1.0 else 8)
    assert sum(external(each) for each in rounds[:3]) > 0
    assert_no_round_lost(node)
    assert exceptions(node) == []
    assert connected(node)
