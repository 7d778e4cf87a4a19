"""How a node ends, and what is left of it: by kill -9 at any moment, in order, at once.

The test's process becomes the parent of whatever a node's death leaves behind, so that nothing
can be overlooked. Source: swarm-sampling.md section 3, T12; network.md section 6, items 12 and 19.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from swarmnode.sim.real import RealNode
from swarmnode.store.reading import stored_bundles
from swarmproto import decode_group
from tests.real.real_support import (
    START_SECONDS,
    Place,
    adopting,
    assert_no_round_lost,
    exceptions,
    orphans,
    patience,
    place,
    process_of,
    until,
    wait_for_rounds,
)

KILLS = int(os.environ.get("SWARMNODE_TEST_KILLS", "10"))
"""How often a node is killed; see docs/contributing.md."""

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200 + 90 * max(0, KILLS - 10))]

SEED = 12
EVERYTHING = 10_000

NobodyIsLeft = Callable[[RealNode], None]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    out = tmp_path_factory.mktemp("resume")
    with place(out, "daemon.checkpoint_seconds=2", "daemon.shortest_round_seconds=0.5") as made:
        yield made


@pytest.fixture
def nobody_is_left() -> Iterator[NobodyIsLeft]:
    """Fails if a process of a dead node still lives."""
    with adopting() as known:

        def check(dead: RealNode) -> None:
            assert dead.process.poll() is not None
            until(lambda: not orphans(known), patience(10), "no process of the dead node is left")

        yield check


def complete(node: RealNode) -> list[Path]:
    """Its complete checkpoints, which are not set aside."""
    found = [path.parent for path in node.home.checkpoints.glob("step-*/MANIFEST.json")]
    return [path for path in found if path.suffix == ""]


def version_of(checkpoint: Path) -> int:
    """The policy version in it; its folder's number is only a place in the order of saving."""
    version: int = json.loads((checkpoint / "state.json").read_text("utf-8"))["version"]
    return version


def newest_checkpoint(node: RealNode) -> int:
    """The policy version of the newest complete checkpoint, -1 where there is none."""
    return max(map(version_of, complete(node)), default=-1)


def test_a_node_killed_at_random_moments_resumes_every_time_and_reuses_no_number(
    here: Place, nobody_is_left: NobodyIsLeft
) -> None:
    rng = random.Random(SEED)
    begun = time.monotonic()
    node = here.run("killed")
    wait_for_rounds(node, 1)
    start_seconds = time.monotonic() - begun
    moments = []
    for kill in range(KILLS):
        # Half of the kills hit a node that is starting, half one that goes through its rounds.
        if kill % 2 == 0:
            wait_for_rounds(node, 0)
            wait = rng.uniform(0.0, 5.0)
        else:
            wait = rng.uniform(0.0, start_seconds)
        time.sleep(wait)
        moments.append(round(wait, 2))
        node.process.kill()
        node.process.wait()
        nobody_is_left(node)
        version, rounds = newest_checkpoint(node), len(node.reports())
        node = here.run("killed")
    status = wait_for_rounds(node, 1)
    print(
        f"killed {KILLS} times, after {moments} s; {rounds} rounds, policy version {version} kept"
    )
    assert status.policy_version is not None
    assert status.policy_version >= version >= 0
    numbers = [report.round for report in node.reports()]
    assert numbers == sorted(set(numbers))
    bundles = list(reversed(stored_bundles(node.home.database, EVERYTHING)))
    sequences = [bundle.sequence for bundle in bundles]
    assert len(bundles) >= KILLS
    assert sequences == sorted(set(sequences))
    records = [decode_group(group) for bundle in bundles for group in bundle.groups]
    asked = Counter((record.task, record.level, record.index) for record in records)
    assert [question for question, times in asked.items() if times > 1] == []
    assert exceptions(node) == []
    node.process.kill()
    node.process.wait()
    nobody_is_left(node)


def test_sigterm_drains_writes_a_checkpoint_and_leaves_no_process(
    here: Place, nobody_is_left: NobodyIsLeft
) -> None:
    node = here.run("drained", "--set", "daemon.checkpoint_seconds=100000")
    wait_for_rounds(node, 3)
    node.process.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    assert node.process.wait(patience(30)) == 0
    seconds = time.monotonic() - begun
    nobody_is_left(node)
    last, version = node.reports()[-1].round, newest_checkpoint(node)
    print(f"ended {seconds:.1f} s after SIGTERM, round {last}, policy version {version}")
    assert version >= 0
    again = here.run("drained")
    status = wait_for_rounds(again, 1)
    assert status.policy_version is not None
    assert status.policy_version >= version
    assert_no_round_lost(again)
    again.process.send_signal(signal.SIGINT)
    assert again.process.wait(patience(30)) == 0
    nobody_is_left(again)
    for each in (node, again):
        assert exceptions(each) == []


def test_a_second_signal_ends_a_node_now_even_if_its_policy_host_hangs(
    here: Place, nobody_is_left: NobodyIsLeft
) -> None:
    node = here.run("hurried", "--set", "daemon.grace_seconds=1000")
    wait_for_rounds(node, 1)
    host = until(lambda: process_of(node, "policy"), patience(10), "the policy host")
    psutil.Process(host).suspend()
    node.process.send_signal(signal.SIGTERM)
    until(
        lambda: (status := node.status()) and status.phase != "starting",
        patience(10),
        "it answers while it drains",
    )
    time.sleep(1.0)
    assert node.process.poll() is None, "it waits for the round"
    begun = time.monotonic()
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(patience(5)) == 130
    print(f"ended {time.monotonic() - begun:.2f} s after the second signal")
    nobody_is_left(node)


def test_a_policy_host_and_a_scorer_killed_in_a_round_come_back(
    here: Place, nobody_is_left: NobodyIsLeft
) -> None:
    node = here.run("mended")
    wait_for_rounds(node, 2)
    until(lambda: newest_checkpoint(node) >= 0, patience(20), "a checkpoint")
    for part in ("policy", "scorer"):
        lost = until(lambda part=part: process_of(node, part), patience(10), part)  # type: ignore[misc]
        os.kill(lost, signal.SIGKILL)
        wait_for_rounds(node, 3, 60)
        assert process_of(node, part) != lost
    assert_no_round_lost(node)
    node.process.send_signal(signal.SIGTERM)
    assert node.process.wait(patience(30)) == 0
    nobody_is_left(node)


def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_goes_on(here: Place) -> None:
    node = here.run("damaged")
    until(lambda: len(complete(node)) >= 2, patience(2 * START_SECONDS), "two checkpoints")
    node.process.kill()
    node.process.wait()
    *_, before, newest = sorted(complete(node), key=lambda path: int(path.name[len("step-") :]))
    least, weights = version_of(before), newest / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    status = wait_for_rounds(here.run("damaged"), 1)
    assert status.policy_version is not None
    assert status.policy_version >= least
    assert newest.with_name(f"{newest.name}.bad").is_dir()
