"""The daemon with real children and the smallest policy: how it ends, and what it survives.

The short form of tests/real, which breaks more and looks longer.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest

from swarmnode.api.status import ask
from swarmnode.sim.real import RealNode
from swarmnode.store.reading import stored_bundles
from swarmproto import decode_group
from tests.real.real_support import (
    Place,
    adopting,
    assert_no_round_lost,
    exceptions,
    orphans,
    patience,
    place,
    process_of,
    running,
    until,
    wait_for_rounds,
)

pytestmark = pytest.mark.timeout(600)

SMALLEST = (
    'tasks.names=["basic_arithmetic"]',
    "policy.warm_start.base_steps=0",
    "policy.warm_start.steps=0",
    "policy.tiny.width=16",
    "policy.tiny.layers=1",
    "policy.tiny.heads=2",
    "daemon.shortest_round_seconds=0.2",
    "daemon.checkpoint_seconds=0.5",
)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place(tmp_path_factory.mktemp("daemon"), *SMALLEST) as made:
        yield made


@pytest.fixture(scope="module")
def node(here: Place) -> RealNode:
    """A node that is in no swarm, and would be in one."""
    running_node = here.run("shared")
    wait_for_rounds(running_node, 1)
    return running_node


def killed(node: RealNode) -> None:
    """End it without a word; its children must end by themselves."""
    with adopting() as known:
        node.process.kill()
        node.process.wait()
        until(lambda: not orphans(known), patience(10), "no process of the dead node is left")


def test_a_lost_network_process_costs_no_round_and_the_status_says_so(node: RealNode) -> None:
    lost = until(lambda: process_of(node, "network"), patience(20), "the network process")
    os.kill(lost, signal.SIGKILL)

    def told() -> bool:
        status = running(node)
        return bool(status and "network process restarting" in status.summary)

    until(told, patience(5), "the status says that the network process is lost", 0.05)
    wait_for_rounds(node, 2, 10)

    def another() -> bool:
        status = running(node)
        process = process_of(node, "network")
        return bool(status and status.network.restarts and process and process != lost)

    until(another, patience(20), "another network process")
    assert_no_round_lost(node)
    assert exceptions(node) == []


def test_a_lost_scorer_and_a_lost_policy_host_come_back(node: RealNode) -> None:
    for part in ("scorer", "policy"):
        lost = process_of(node, part)
        assert lost
        os.kill(lost, signal.SIGKILL)
        wait_for_rounds(node, 2, 30)
        assert process_of(node, part) != lost
    assert_no_round_lost(node)


def test_a_home_in_which_a_node_runs_is_refused_in_one_line(here: Place, node: RealNode) -> None:
    refused = here.refused(node.home.path)
    assert refused.returncode == 3
    assert refused.stderr.startswith("swarmnode: ")
    (line,) = refused.stderr.splitlines()
    assert f"in use by process {node.process.pid}" in line
    assert ask(node.home.status_socket, "status")["phase"] == "running"


def test_a_killed_node_leaves_nobody_goes_on_and_reuses_no_number(here: Place) -> None:
    first = here.run("killed")
    wait_for_rounds(first, 3)
    killed(first)
    before = first.reports()[-1].round
    second = here.run("killed")
    status = wait_for_rounds(second, 2)
    assert status.round
    assert status.round.number > before
    killed(second)
    assert_no_round_lost(second)
    bundles = list(reversed(stored_bundles(second.home.database, 1000)))
    numbers = [bundle.sequence for bundle in bundles]
    assert len(numbers) >= 4
    assert numbers == sorted(set(numbers))
    records = [decode_group(group) for bundle in bundles for group in bundle.groups]
    asked = Counter((record.task, record.index) for record in records)
    assert max(asked.values()) == 1
    assert exceptions(second) == []


def test_the_first_signal_drains_and_saves_and_the_second_ends_now(here: Place) -> None:
    node = here.run("ended", "--solo", "--set", "daemon.checkpoint_seconds=1000")
    wait_for_rounds(node, 2)
    with adopting() as known:
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(patience(20)) == 0
        assert not orphans(known)
    assert list(node.home.checkpoints.glob("step-*/MANIFEST.json"))
    last = node.reports()[-1].round
    again = here.run("ended", "--solo", "--set", "daemon.grace_seconds=1000")
    wait_for_rounds(again, 1)
    assert again.reports()[last + 1].round == last + 1
    host = process_of(again, "policy")
    assert host
    psutil.Process(host).suspend()
    with adopting() as known:
        again.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            again.process.wait(0.7)
        again.process.send_signal(signal.SIGTERM)
        assert again.process.wait(patience(5)) == 130
        until(lambda: not orphans(known), patience(10), "no process is left")
