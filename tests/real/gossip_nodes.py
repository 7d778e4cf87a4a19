"""Nodes of tests/real/gossiping.py as processes, from outside: started, told to publish, asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from swarmnode.network.choice import Library


@dataclass
class Node:
    """One process, spoken to by lines."""

    process: subprocess.Popen[str]
    address: str = ""

    def ask(self, line: str) -> str:
        """Say a line; what it answers."""
        self.tell(line)
        return self.answer()

    def tell(self, line: str) -> None:
        """Say a line."""
        into: IO[str] | None = self.process.stdin
        assert into is not None
        into.write(f"{line}\n")
        into.flush()

    def answer(self) -> str:
        """A line of its."""
        out = self.process.stdout
        assert out is not None
        line = out.readline().strip()
        assert line, "it ended"
        return line


def child(*arguments: str) -> subprocess.Popen[str]:
    """A process of gossiping.py."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.real.gossiping", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def wait_for(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether something came to hold in time, looked at once a second."""
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            return False
        time.sleep(1.0)
    return True


@contextmanager
def nodes(folder: Path, libraries: Sequence[Library], join_seconds: float) -> Iterator[list[Node]]:
    """One of each library named, each connected to somebody by then."""
    started: list[Node] = []
    try:
        for number, library in enumerate(libraries, 1):
            known = [started[0].address] if started else []
            node = Node(child("node", library, str(number), str(folder), *known))
            started.append(node)
            node.address = node.answer()
        for node in started:
            joined = wait_for(lambda node=node: int(node.ask("peers")) >= 1, join_seconds)  # type: ignore[misc]
            assert joined, "a node has no peer"
        time.sleep(join_seconds / 6)  # meshes are made by heartbeats
        yield started
    finally:
        for node in started:
            with node.process:
                node.process.kill()


def publish_all(
    started: Sequence[Node], each: int, per_second: float, wait_seconds: float
) -> list[dict[str, Any]]:
    """So many announcements of each node, at a rate for all together; what each has to tell then.

    Waits until all have heard all, or for so long after the last.
    """
    for node in started:
        node.tell(f"publish {each} {per_second / len(started)}")
    for node in started:
        assert node.answer() == "published"
    due = each * (len(started) - 1)
    wait_for(lambda: all(int(node.ask("heard")) >= due for node in started), wait_seconds)
    return [json.loads(node.ask("report")) for node in started]


def delivered(reports: Sequence[dict[str, Any]]) -> tuple[float, list[float]]:
    """The share of announcements that arrived at others, and how long each took, sorted."""
    told = {
        name: (at, moment)
        for at, each in enumerate(reports)
        for name, moment in each["told"].items()
    }
    latencies = [
        each["heard"][name] - moment
        for at, each in enumerate(reports)
        for name, (author, moment) in told.items()
        if author != at and name in each["heard"]
    ]
    return len(latencies) / (len(told) * (len(reports) - 1)), sorted(latencies)
