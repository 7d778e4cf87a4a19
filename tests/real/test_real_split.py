"""A split node with `tiny`: it learns, and each of its parts may be killed again and again.

Generation and training are apart (docs/split.md). What a node learns in `split` is no less for the
kills: a lost trainer costs what was learned since its checkpoint, a lost generator a batch.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections import Counter
from pathlib import Path

import pytest

from swarmnode.sim.real import RealNode
from swarmnode.store.reading import stored_bundles
from swarmnode.weights.places import place_of
from swarmproto import decode_group
from tests.real.real_support import (
    assert_no_round_lost,
    exceptions,
    patience,
    place,
    process_of,
    running,
    until,
    wait_connected,
    wait_for_others,
    wait_for_rounds,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(1800)]

SPLIT = ('policy.mode="split"', "policy.generators=2", "daemon.checkpoint_seconds=3")
LEARNING = ("policy.warm_start.base_steps=200", "policy.warm_start.base_pairs_per_task=500")
"""Enough that some groups are live: every other round makes a version."""
TURNS = 3
"""How often each part is killed."""


def killed(node: RealNode, part: str) -> None:
    """End a part, and wait until there is another one that works."""
    lost = until(lambda: process_of(node, part), patience(60), f"a process for {part}")
    os.kill(lost, signal.SIGKILL)

    def another() -> bool:
        return process_of(node, part) not in (lost, None)

    until(another, patience(90), f"another process for {part}")
    wait_for_rounds(node, 3, 90)


def taken_by_all(node: RealNode, version: float) -> bool:
    """Whether every generator samples with that version, or a later one."""
    status = running(node)
    split = status.split if status else None
    return split is not None and min(each.version for each in split.generators) >= version


def assert_sound(node: RealNode) -> None:
    """No round is lost, no number of weights goes back, hardly a group is stale."""
    assert_no_round_lost(node)
    reports = node.reports()[1:]
    versions = [int(report.metrics["split/version"]) for report in reports]
    assert versions == sorted(versions)
    assert max(report.metrics["split/lag_max"] for report in reports) <= 4
    last = reports[-1].metrics
    stale = last["split/dropped/lag"] + last["split/dropped/age"]
    print(
        f"{stale:.0f} of {last['split/generated_groups']:.0f} groups stale, versions {versions[-1]}"
    )
    # Those of a lost trainer's last versions may be too far from its checkpoint.
    assert stale <= 0.02 * last["split/generated_groups"] + 8 * TURNS


def test_a_split_node_trains_alone_while_its_parts_are_killed_in_turn_and_goes_on(
    tmp_path: Path,
) -> None:
    with place(tmp_path, *SPLIT, *LEARNING) as here:
        node = here.run("node", "--solo")
        wait_for_rounds(node, 5)
        order = ["generator-1", "policy", "generator-2", "scorer"] * TURNS
        random.Random(0).shuffle(order)
        for part in order:
            killed(node, part)
        # What systemd-logind does at a log-out, while everything runs.
        shutil.rmtree(place_of(node.home.path, os.getuid()))
        version = node.reports()[-1].metrics["split/version"]
        until(lambda: taken_by_all(node, version + 2), patience(120), "weights in a new place")
        assert_sound(node)
        assert node.reports()[-1].metrics["split/version"] > 2 * len(order)
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(patience(60)) == 0
        assert exceptions(node) == []
        assert not place_of(node.home.path, os.getuid()).exists()
        before = node.reports()[-1]
        again = here.run("node", "--solo")
        wait_for_rounds(again, 5)
        assert (
            again.reports()[before.round + 1].metrics["split/version"]
            >= (before.metrics["split/version"])
        )
        again.process.kill()
        again.process.wait()
        third = here.run("node", "--solo")
        wait_for_rounds(third, 5)
        versions = [report.metrics["split/version"] for report in third.reports()[1:]]
        assert versions == sorted(versions)
        assert_no_round_lost(third)


def test_both_parts_lost_at_once_come_back(tmp_path: Path) -> None:
    with place(tmp_path, 'policy.mode="split"', "daemon.checkpoint_seconds=3") as here:
        node = here.run("node", "--solo")
        wait_for_rounds(node, 5)
        both = [process_of(node, part) for part in ("policy", "generator-1")]
        for process in both:
            assert process
            os.kill(process, signal.SIGKILL)
        wait_for_rounds(node, 5, 120)
        assert process_of(node, "generator-1") not in (*both, None)
        assert_sound(node)


def test_a_split_node_of_a_swarm_comes_back_each_time_p2pd_a_generator_or_the_trainer_is_killed(
    tmp_path: Path,
) -> None:
    """A split and a sync node train on each other's groups, after each loss again; no question is
    asked twice."""
    with place(tmp_path) as here:
        _, address = here.bootstrap()
        sets = [word for each in SPLIT for word in ("--set", each)]
        split, sync = here.run("split", address, *sets), here.run("sync", address)
        for node in (split, sync):
            wait_connected(node)
        for node in (split, sync):
            wait_for_others(node)
        for part in ("p2pd", "generator-1", "policy", "network", "p2pd", "generator-2", "policy"):
            killed(split, part)
            wait_connected(split)
            for node in (split, sync):
                wait_for_others(node, node.reports()[-1].clock_seconds, 120)
        status = running(split)
        assert status
        assert status.split
        assert_sound(split)
        bundles = stored_bundles(split.home.database, 1000)
        records = [decode_group(group) for bundle in bundles for group in bundle.groups]
        asked = Counter((record.task, record.index) for record in records)
        assert max(asked.values()) == 1
        assert exceptions(split) == []
