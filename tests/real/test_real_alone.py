"""Nodes with nobody around, or nobody of use: alone, unheard, out of reach, out of time.

Source: swarm-sampling.md section 3, T2, T3, T4, T6 and T8; network.md section 5.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swarmnode.sim.real import RealNode
from tests.real.elsewhere import python_elsewhere
from tests.real.real_support import (
    address_of,
    assert_no_round_lost,
    exceptions,
    external,
    free_port,
    made_home,
    patience,
    peers_of,
    place,
    rounds_after,
    running,
    silent_port,
    until,
    wait_connected,
    wait_for_others,
    wait_for_rounds,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

NAMESPACE = "swarmnode-test"
OUTSIDE, INSIDE = "10.77.213.1", "10.77.213.2"


def test_a_node_started_alone_trains_and_joins_as_soon_as_a_bootstrap_peer_appears(
    tmp_path: Path,
) -> None:
    with silent_port() as silent, place(tmp_path) as here:
        port = free_port()
        _, peer = made_home(tmp_path / "bootstrap")
        late = address_of(port, peer)
        never = address_of(silent, made_home(tmp_path / "silent")[1])
        wait = ("--set", f'network.bootstrap=["{never}"]')
        node = here.run("first", late, *wait)
        status = wait_for_rounds(node, 2)
        assert "training alone" in status.summary
        until(
            lambda: (found := running(node)) and "answers (2 tried)" in found.summary,
            patience(30),
            "the status says that no bootstrap peer answers",
        )
        here.bootstrap("bootstrap", "--listen", f"/ip4/127.0.0.1/tcp/{port}")
        begun = time.monotonic()
        wait_connected(node, 60)
        print(f"joined {time.monotonic() - begun:.1f} s after the bootstrap peer appeared")
        # The first node of a swarm finds an empty store, round after round.
        wait_for_rounds(node, 4, 30)
        assert not any(map(external, node.reports()))
        second = here.run("second", late)
        wait_connected(second)
        for each in (node, second):
            wait_for_others(each)
            assert_no_round_lost(each)
            assert exceptions(each) == []


def test_a_swarm_with_nothing_usable_in_it_goes_through_its_rounds_without_a_step(
    tmp_path: Path,
) -> None:
    # Answers of one token are cut off, and so never right; the filter wants live groups.
    with place(
        tmp_path,
        "policy.warm_start.base_steps=0",
        "policy.warm_start.steps=0",
        "policy.max_new_tokens=1",
        "selection.filter=nonzero-advantage",
    ) as here:
        _, address = here.bootstrap()
        nodes = [here.run(name, address) for name in ("0", "1")]
        for node in nodes:
            wait_connected(node)
        for node in nodes:
            status = wait_for_rounds(node, 6, 40)
            print(f"dropped {dict(status.dropped)}")
            assert status.policy_version == 0
            assert not any(map(external, node.reports()))
            assert_no_round_lost(node)
            assert exceptions(node) == []


def test_a_node_whose_port_is_taken_trains_says_whose_it_is_and_joins_when_it_is_free(
    tmp_path: Path,
) -> None:
    with place(tmp_path) as here:
        _, address = here.bootstrap()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            node = here.run("node", address, "--listen", f"/ip4/127.0.0.1/tcp/{port}")
            wait_for_rounds(node, 3)
            why = f"port {port}/tcp is in use by process {os.getpid()}"

            def told() -> bool:
                status = running(node)
                return bool(status and why in status.network.error and "alone" in status.summary)

            until(told, patience(20), "the status names the port and its owner")
        wait_connected(node, 70)
        assert_no_round_lost(node)


def test_the_later_one_of_two_machines_with_one_key_trains_alone_and_says_so(
    tmp_path: Path,
) -> None:
    with place(tmp_path) as here:
        _, address = here.bootstrap()
        first, other = here.run("first", address), here.run("other", address)
        wait_connected(first)
        wait_connected(other)
        (tmp_path / "second").mkdir()
        shutil.copy(first.home.key, tmp_path / "second" / "key")
        second = here.run("second", address, python=python_elsewhere(tmp_path / "machine"))
        wait_for_rounds(second, 1)
        until(
            lambda: (found := running(second)) and "another node uses this key" in found.summary,
            patience(40),
            "the second says that it is one",
        )
        until(lambda: withheld(second) > 0, patience(20), "the second withholds what it made")
        published, moment = published_by(second), time.time()
        wait_for_rounds(second, 4, 30)
        assert published_by(second) == published
        # The round that was under way may have had its groups already.
        alone = rounds_after(second, moment)[1:]
        assert alone
        assert [external(report) for report in alone] == [0] * len(alone)
        wait_for_others(first, moment)
        told = running(first)
        assert told
        assert "another node uses this key" not in told.summary
        assert withheld(first) == 0
        assert_no_round_lost(second)


def test_clocks_ten_minutes_off_hurt_no_training_are_told_and_punish_nobody(
    tmp_path: Path,
) -> None:
    with place(tmp_path) as here:
        _, address = here.bootstrap()
        right = [here.run(name, address) for name in ("right", "true")]
        ahead = here.run("ahead", address, python=python_elsewhere(tmp_path / "a", 600.0))
        behind = here.run("behind", address, python=python_elsewhere(tmp_path / "b", -600.0))
        everyone = [*right, ahead, behind]
        for node in everyone:
            wait_connected(node)
        for node, offset in ((ahead, -600), (behind, 600)):

            def told(node: RealNode = node) -> bool:
                status = running(node)
                codes = {each.code for each in status.warnings} if status else ()
                return "clock-far-off" in codes

            until(told, patience(60), f"{node.home.path.name} is told about its clock")
            status = running(node)
            assert status
            assert status.network.clock_offset_seconds == pytest.approx(offset, abs=30)
        for node in right:
            wait_for_others(node)
        before = [len(node.reports()) for node in everyone]
        time.sleep(patience(15))
        for node, rounds in zip(everyone, before, strict=True):
            assert len(node.reports()) >= rounds + 4
            assert_no_round_lost(node)
            assert exceptions(node) == []
            known = peers_of(node).peers
            assert known
            assert [each.muted_seconds for each in known] == [0.0] * len(known)
            status = running(node)
            assert status
            print(f"{node.home.path.name}: dropped {dict(status.dropped)}")
        for node in right:
            status = running(node)
            assert status
            assert "clock-far-off" not in {each.code for each in status.warnings}


def test_a_node_without_any_inbound_route_supplies_groups_to_three_others_through_offers(
    tmp_path: Path,
) -> None:
    # The others share nothing, so that what they train on is that node's.
    with namespace(), place(tmp_path) as here:
        opened = ("--listen", f"/ip4/{OUTSIDE}/tcp/0")
        _, address = here.bootstrap("bootstrap", *opened)
        quiet = ("--set", 'rounds.share="none"')
        others = [here.run(name, address, *opened, *quiet) for name in ("0", "1", "2")]
        for node in others:
            wait_connected(node)
        inside = here.run("inside", address, python=python_in_namespace(tmp_path))
        wait_connected(inside)
        begun = time.monotonic()
        for node in others:
            wait_for_others(node, seconds=90)
        print(f"three others trained on its groups after {time.monotonic() - begun:.1f} s")
        status = running(inside)
        assert status
        assert status.network.reachable is not True
        for node in (*others, inside):
            assert exceptions(node) == []


def published_by(node: RealNode) -> float:
    """Bundles since it started; one that was second from its first round on has none."""
    return node.reports()[-1].metrics.get("published/bundles", 0.0)


def withheld(node: RealNode) -> float:
    """Rounds that it did not publish since it started."""
    return node.reports()[-1].metrics.get("published/withheld", 0.0)


@contextmanager
def namespace() -> Iterator[None]:
    """A network namespace that can call out, over a pair of interfaces; skips where none can be."""
    if os.getuid() != 0 or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the program ip")
    subprocess.run(["ip", "netns", "del", NAMESPACE], capture_output=True)
    added = subprocess.run(["ip", "netns", "add", NAMESPACE], capture_output=True, text=True)
    if added.returncode:
        pytest.skip(f"no network namespace can be made here: {added.stderr.strip()}")
    try:
        for command in (
            f"link add {NAMESPACE[:9]}0 type veth peer name eth0 netns {NAMESPACE}",
            f"addr add {OUTSIDE}/30 dev {NAMESPACE[:9]}0",
            f"link set {NAMESPACE[:9]}0 up",
            f"-n {NAMESPACE} addr add {INSIDE}/30 dev eth0",
            f"-n {NAMESPACE} link set eth0 up",
            f"-n {NAMESPACE} link set lo up",
        ):
            subprocess.run(["ip", *command.split()], check=True, capture_output=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", NAMESPACE], check=True, capture_output=True)


def python_in_namespace(folder: Path) -> Path:
    """A Python in the namespace: it listens on that one's loopback alone, where nobody else is."""
    elsewhere = python_elsewhere(folder / "inside-machine")
    program = folder / "python-inside"
    program.write_text(f'#!/bin/sh\nexec ip netns exec {NAMESPACE} {elsewhere} "$@"\n')
    program.chmod(0o700)
    return program
