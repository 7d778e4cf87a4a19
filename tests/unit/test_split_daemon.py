"""A split node with real children and the smallest policy: it trains, and survives its parts.

The short form of tests/real/test_real_split.py.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest

from swarmnode.sim.real import RealNode
from tests.real.real_support import (
    Place,
    assert_no_round_lost,
    exceptions,
    patience,
    place,
    process_of,
    running,
    until,
    wait_for_rounds,
)
from tests.unit.test_daemon import SMALLEST

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with place(
        tmp_path_factory.mktemp("split"), *SMALLEST, 'policy.mode="split"', "policy.generators=2"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def node(here: Place) -> RealNode:
    started = here.run("split", "--solo")
    wait_for_rounds(started, 2)
    return started


def kept_offset(node: RealNode) -> int:
    """What its newest checkpoint says."""
    newest = max(node.home.checkpoints.glob("step-*/state.json"))
    offset: int = json.loads(newest.read_bytes())["extra"]["version_offset"]
    return offset


def versions(node: RealNode) -> list[int]:
    """Under which the weights went out, after each round but the one before the first."""
    return [int(report.metrics["split/version"]) for report in node.reports()[1:]]


def test_a_split_node_trains_and_its_status_tells_of_both_sides(node: RealNode) -> None:
    wait_for_rounds(node, 5)
    status = running(node)
    assert status
    assert status.split
    assert [each.name for each in status.split.generators] == ["generator-1", "generator-2"]
    assert status.split.generated_groups > 0
    assert status.split.lag <= status.split.max_lag
    assert status.split.trainer_round_seconds
    assert {"policy", "generator-1", "generator-2"} <= {each.name for each in status.processes}
    assert_no_round_lost(node)


def test_a_lost_generator_and_a_lost_trainer_come_back(node: RealNode) -> None:
    for part in ("generator-1", "policy"):
        lost = process_of(node, part)
        assert lost
        os.kill(lost, signal.SIGKILL)
        wait_for_rounds(node, 4, 60)

        def another(part: str = part, lost: int = lost) -> bool:
            return process_of(node, part) not in (lost, None)

        until(another, patience(60), f"another process for {part}")
        wait_for_rounds(node, 2, 60)
    assert_no_round_lost(node)
    # Asked once: it goes on meanwhile.
    numbers = versions(node)
    assert numbers == sorted(numbers)
    last = node.reports()[-1].metrics
    assert last["split/dropped/lag"] + last["split/dropped/age"] <= (
        0.02 * last["split/generated_groups"]
    )


def test_it_ends_in_order_and_goes_on_in_either_mode(here: Place, node: RealNode) -> None:
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(60) == 0
    assert exceptions(node) == []
    # What the numbers of the weights are beyond the steps, since a trainer was lost.
    offset = kept_offset(node)
    assert offset > 0
    rounds = node.reports()[-1].round
    together = here.run("split", "--solo", "--mode", "sync")
    status = wait_for_rounds(together, 2)
    assert status.split is None
    assert together.reports()[rounds + 1].round == rounds + 1
    together.process.send_signal(signal.SIGTERM)
    assert together.process.wait(60) == 0
    assert kept_offset(together) == offset
    again = here.run("split", "--solo")
    assert wait_for_rounds(again, 2).split
    assert_no_round_lost(again)
