"""`swarmnode pretrain` as a process that is killed with signal 9, and goes on exactly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pretraining_support import SMALL, write_corpus

WAIT_SECONDS = 240.0


def start(texts: Path, out: Path) -> subprocess.Popen[str]:
    """The command on a small run of HDS, on one thread."""
    chosen = [*SMALL, "scheduling.kind=hds", "pretraining.steps=60", "pretraining.seed=7"]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "swarmnode", "pretrain", str(texts), "--out", str(out)),
            *(f"--set={each}" for each in chosen),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "SWARMNODE_HOME": str(texts.parent / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def rows(out: Path) -> list[dict[str, Any]]:
    """Every whole line, without the times."""
    file = out / "rows.jsonl"
    lines = file.read_text("utf-8").splitlines(keepends=True) if file.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [{name: value for name, value in row.items() if name != "seconds"} for row in found]


def ended(process: subprocess.Popen[str]) -> str:
    """Its output, when it ended well."""
    output, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0, output
    return output


@pytest.mark.real
@pytest.mark.timeout(900)
def test_a_killed_process_goes_on_to_the_same_rows_and_weights(tmp_path: Path) -> None:
    texts = write_corpus(tmp_path)
    ended(start(texts, tmp_path / "whole"))
    whole = rows(tmp_path / "whole")
    assert len(whole) == 61
    out = tmp_path / "killed"
    for at in (13, 41):
        process = start(texts, out)
        deadline = time.monotonic() + WAIT_SECONDS
        while len(rows(out)) <= at and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=WAIT_SECONDS)
        assert process.returncode == -signal.SIGKILL
        assert at < len(rows(out)) < 61
    assert "going on after step" in ended(start(texts, out))
    assert rows(out) == whole
    told = [
        json.loads((each / "summary.json").read_text("utf-8")) for each in (out, tmp_path / "whole")
    ]
    assert told[0]["validation"] == told[1]["validation"]
