"""Nodes that find each other on a local network, by multicast over a switch, without any address.

Each is in a network namespace of its own, as on a machine of its own.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.real.namespaces import python_in, switched
from tests.real.real_support import (
    assert_no_round_lost,
    exceptions,
    external,
    place,
    running,
    wait_connected,
    wait_for_others,
    wait_for_rounds,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]


def test_two_laptops_on_one_network_find_each_other_and_train_on_each_others_groups(
    tmp_path: Path,
) -> None:
    with switched(["10.77.214.1/24", "10.77.214.2/24"]) as machines, place(tmp_path) as here:
        first_python, second_python = (python_in(name, tmp_path) for name in machines)
        first = here.run("first", "--lan", python=first_python)
        wait_for_rounds(first, 2)
        assert not any(map(external, first.reports())), "nobody else is there yet"
        second = here.run("second", "--lan", python=second_python)
        begun = time.monotonic()
        for node in (first, second):
            wait_connected(node)
        print(f"both connected {time.monotonic() - begun:.1f} s after the second was started")
        for node in (first, second):
            wait_for_others(node)
            status = running(node)
            assert status
            assert not status.network.bootstrap, "no address was given"
            print(status.summary, status.network.addresses, status.network.reachable)
            assert_no_round_lost(node)
            assert exceptions(node) == []
