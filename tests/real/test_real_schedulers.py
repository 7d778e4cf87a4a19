"""Schedulers that look at gradients, in the real program: a node's rounds follow their shares."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("swarmnode")
SETTINGS = (
    "scheduling.hds.batch=2",
    "scheduling.hds.warmup_batches=1",
    "scheduling.ac_odm.batch=2",
    "evaluation.questions_per_task=4",
)
ROUNDS = 6
pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all kinds, so that the warm start is made once."""
    return tmp_path_factory.mktemp("home")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", ["doge", "reward-softmax", "ac-odm", "hds"])
def test_a_simulated_node_asks_by_the_shares_of_its_policy_host(
    kind: str, home: Path, tmp_path: Path
) -> None:
    chosen = [f"scheduling.kind={kind}", *SETTINGS]
    arguments = "--nodes 2 --mix 4/2 --task basic_arithmetic:easy --task base_conversion:easy"
    done = subprocess.run(
        [
            *(str(PROGRAM), "simulate", *arguments.split()),
            *("--rounds", str(ROUNDS), "--out", "out"),
            *(part for each in chosen for part in ("--set", each)),
        ],
        cwd=tmp_path,
        env={**os.environ, "SWARMNODE_HOME": str(home), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (written,) = (tmp_path / "out").glob("runs/*/rounds.jsonl")
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    rounds = [line["metrics"] for line in lines if line["round"]]
    assert len(rounds) == 2 * ROUNDS
    weights = [
        tuple(v for name, v in each.items() if name.startswith("scheduler/weight/"))
        for each in rounds
    ]
    assert all(len(each) == 2 and sum(each) == pytest.approx(1.0) for each in weights)
    assert len(set(weights)) > 2
    assert all(each["scheduler/non_finite"] == 0 for each in rounds)
    if kind in ("reward-softmax", "hds"):
        assert any(each["scheduler/share/alignment"] > 0.0 for each in rounds)
