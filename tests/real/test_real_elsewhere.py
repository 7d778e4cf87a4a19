"""A trainer and its generators in two network namespaces, and a trainer of several processes.

The node's only generator is in the other namespace: what it samples comes over TLS, and weights go
to it by gloo, or through a folder. It is killed, and so is the trainer, and both come back.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from swarmnode.home import Home
from swarmnode.reports import report_from_json
from swarmnode.sim.real import RealNode
from swarmnode.store.reading import stored_rounds
from swarmnode.types import RoundReport
from tests.real.namespaces import ip, python_in, switched
from tests.real.real_support import (
    assert_no_round_lost,
    exceptions,
    patience,
    place,
    process_of,
    until,
    wait_for_rounds,
)

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]

TRAINER, ELSEWHERE = "10.231.7.1", "10.231.7.2"
DOOR, WEIGHTS = 29500, 29400
LEARNING = ("policy.warm_start.base_steps=150", "daemon.checkpoint_seconds=3")


def bytes_sent(machine: str) -> int:
    """By its interface since it is there."""
    (line,) = ip(f"netns exec {machine} grep eth0: /proc/net/dev").splitlines()
    return int(line.partition(":")[2].split()[8])


def settings(channel: str, folder: Path) -> tuple[str, ...]:
    return (
        'policy.mode="split"',
        "policy.generators=0",
        "policy.remote_generators=1",
        f'policy.generators_address="{TRAINER}:{DOOR}"',
        f'policy.weights.channel="{channel}"',
        f'policy.weights.address="{TRAINER}:{WEIGHTS}"',
        f"policy.weights.folder={json.dumps(str(folder))}",
        *LEARNING,
    )


@contextmanager
def generating(python: Path, node: RealNode) -> Iterator[int]:
    """`swarmnode generate` in the other namespace; its process id."""
    until(node.home.generators_key.exists, patience(60), "the key of generators")
    words = [
        "generate",
        "--of",
        f"{TRAINER}:{DOOR}",
        "--key",
        str(node.home.generators_key),
    ]
    with (python.parent / "generator.log").open("ab") as output:
        process = subprocess.Popen(
            [str(python), "-m", "swarmnode", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("channel", ["broadcast", "folder"])
def test_a_trainer_learns_from_a_generator_in_another_network_and_both_come_back(
    tmp_path: Path, channel: str
) -> None:
    with (
        switched([f"{TRAINER}/24", f"{ELSEWHERE}/24"]) as (ours, theirs),
        place(tmp_path, *settings(channel, tmp_path / "weights")) as here,
    ):
        node = here.run("node", "--solo", python=python_in(ours, tmp_path))
        python = python_in(theirs, tmp_path)
        with generating(python, node):
            wait_for_rounds(node, 8, 240)
            # Weights of 559 kB by gloo for each version, or answers alone.
            assert bytes_sent(ours) > (500_000 if channel == "broadcast" else 1_000)
        with generating(python, node):
            wait_for_rounds(node, 4, 240)
            trainer = process_of(node, "policy")
            assert trainer
            os.kill(trainer, signal.SIGKILL)
            until(lambda: process_of(node, "policy") not in (trainer, None), patience(120), "it")
            wait_for_rounds(node, 4, 240)
        reports = node.reports()
        assert max(report.metrics.get("split/version", 0) for report in reports) > 1
        assert max(report.metrics.get("split/lag_max", 0) for report in reports) <= 4
        assert_no_round_lost(node)
        # A generator that finds its trainer dead says so.
        assert not [line for line in exceptions(node) if "WeightsError" not in line]


def trained(home: Path, *words: str, torchrun: bool) -> list[RoundReport]:
    """The rounds of a run on its own, by one process or by torchrun with two."""
    two = ["torch.distributed.run", "--nproc-per-node", "2", "-m"] if torchrun else []
    command = ["run", "--solo", "--seed", "3", "--out", str(home), *words]
    subprocess.run(
        [sys.executable, "-m", *two, "swarmnode", *command],
        env={**os.environ, "SWARMNODE_CACHE": str(home.parent / "cache"), "OMP_NUM_THREADS": "1"},
        check=True,
        timeout=patience(300),
    )
    stored = stored_rounds(Home(home).database)
    return sorted((report_from_json(each.report) for each in stored), key=lambda one: one.round)


def test_torchrun_gives_the_losses_of_one_process_and_goes_on_from_its_checkpoint(
    tmp_path: Path,
) -> None:
    words = ["--task", "basic_arithmetic"]
    words += ["--set", "policy.warm_start.base_steps=150", "--set", "training.inner_steps=2"]
    words += ["--set", "evaluation.questions_per_task=5"]
    one = trained(tmp_path / "one", *words, "--rounds", "6", torchrun=False)
    two = trained(tmp_path / "two", *words, "--rounds", "6", torchrun=True)
    losses = [report.metrics["loss"] for report in one if "loss" in report.metrics]
    assert len(losses) >= 3
    for alone, together in zip(one, two, strict=True):
        for name in ("loss", "grad_norm", "reward/local"):
            expected = alone.metrics.get(name)
            assert together.metrics.get(name) == (
                None if expected is None else pytest.approx(expected, abs=1e-5)
            )
    print([(report.round, report.metrics.get("loss")) for report in two])
    longer = [*words, "--rounds", "8"]
    assert trained(tmp_path / "two", *longer, torchrun=False)[-1].round == 8
    assert trained(tmp_path / "one", *longer, torchrun=True)[-1].round == 8
