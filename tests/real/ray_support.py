"""Two Ray nodes on loopback for tests (ray_nodes.py), from the side of the test."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from tests.real.ray_nodes import LOOPBACK


@dataclass
class Nodes:
    """A running cluster of two."""

    process: subprocess.Popen[str]
    address: str
    ids: Sequence[str]

    def kill(self, number: int) -> None:
        """End a node as a crash would."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"kill {number}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "killed\n"


@pytest.fixture
def environment() -> Iterator[dict[str, str]]:
    """Of Ray and of what joins it: loopback, a token of its own, and short paths."""
    folder = tempfile.mkdtemp(prefix="rt-", dir="/tmp")
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    yield {**os.environ, **LOOPBACK, **token, "RAY_TMPDIR": folder}
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def two_nodes(environment: Mapping[str, str]) -> Iterator[Nodes]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.real.ray_nodes", "1", "1"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout
        address, *ids = process.stdout.readline().split()
        yield Nodes(process, address, ids)
    finally:
        assert process.stdin
        assert process.stdout
        process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
        # Whatever of Ray did not begin, or does not end, is in its group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
