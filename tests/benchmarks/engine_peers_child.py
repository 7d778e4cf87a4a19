"""Starting the process of one contestant, and ending it before the machine runs out of memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.engine_peers_work import Work

LEAST_AVAILABLE_BYTES = 1.5 * 2**30
_LOOK_EVERY_SECONDS = 0.2
_ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
"""Nothing is downloaded, and all contestants compute on the CPU."""
_ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A contestant's process ended without a result; the text holds its last lines."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a contestant's process gave back, or None where memory didn't suffice."""

    result: dict[str, Any] | None
    peak_mib: float
    """The most that was seen, where there is no result."""
    seconds: float


def run_contestant(work: Work, python: Path = Path(sys.executable)) -> Answer:
    """Run the work in a process of its own. Raises Failed."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as said:
        told.write(work.to_json().encode())
        told.seek(0)
        process = subprocess.Popen(
            [str(python), "-m", "tests.benchmarks.engine_peers_run"],
            cwd=_ROOT,
            env={**os.environ, **_ENVIRONMENT},
            stdin=told,
            stdout=subprocess.PIPE,
            stderr=said,
        )
        try:
            peak = _watch(process)
            output, _ = process.communicate()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        seconds = time.monotonic() - began
        if peak is not None:
            return Answer(None, peak / 2**20, seconds)
        if process.returncode:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-12:]
            raise Failed(f"{work.contestant} ended with {process.returncode}:\n" + "\n".join(last))
    return Answer(json.loads(output.splitlines()[-1]), 0.0, seconds)


def _watch(process: subprocess.Popen[bytes]) -> int | None:
    """Wait for the end; the memory that it had when it had to be ended."""
    watched = psutil.Process(process.pid)
    most = 0
    while True:
        try:
            process.wait(_LOOK_EVERY_SECONDS)
        except subprocess.TimeoutExpired:
            most = max(most, int(watched.memory_info().rss))
            if psutil.virtual_memory().available < LEAST_AVAILABLE_BYTES:
                process.kill()
                return most
        else:
            return None
