"""Gossip over eight nodes on py-libp2p, a process each: what arrives, how late, under junk."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from tests.real.real_support import patience, until

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        importlib.util.find_spec("libp2p") is None, reason="the extra libp2p is not installed"
    ),
]

NODES = 8
ANNOUNCEMENTS = 200
PER_SECOND = 20.0
OF_OTHERS = ANNOUNCEMENTS - ANNOUNCEMENTS // NODES
LATENCY_SECONDS = 2.0
JUNK_PER_SECOND = 500.0
JUNK_SECONDS = 15.0
LATE_SECONDS = 0.05


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


def _child(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.real.gossiping", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


@contextmanager
def nodes(folder: Path) -> Iterator[list[Node]]:
    """Connected, each to some others."""
    started: list[Node] = []
    try:
        for number in range(1, NODES + 1):
            known = [started[0].address] if started else []
            node = Node(_child("node", str(number), str(folder), *known))
            started.append(node)
            node.address = node.answer()
        for node in started:
            until(lambda node=node: int(node.ask("peers")) >= 1, patience(30), "a peer")  # type: ignore[misc]
        time.sleep(patience(5.0))  # meshes are made by heartbeats
        yield started
    finally:
        for node in started:
            node.process.kill()
            node.process.wait()


def ended(started: Sequence[Node]) -> list[dict[str, Any]]:
    """What each has to tell at its end."""
    return [json.loads(node.ask("end")) for node in started]


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


def publish_all(started: Sequence[Node]) -> None:
    """ANNOUNCEMENTS at PER_SECOND in all, by everybody in turn."""
    for node in started:
        node.tell(f"publish {ANNOUNCEMENTS // NODES} {PER_SECOND / NODES}")
    for node in started:
        assert node.answer() == "published"
    with suppress(AssertionError):
        until(
            lambda: all(int(node.ask("heard")) >= OF_OTHERS for node in started),
            patience(20.0),
            "all have heard all",
            every=1.0,
        )


def test_all_announcements_arrive_at_everybody_in_time(tmp_path: Path) -> None:
    with nodes(tmp_path) as started:
        publish_all(started)
        reports = ended(started)
    share, latencies = delivered(reports)
    p50, p99 = (latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
    cpu = sum(each["cpu_seconds"] for each in reports)
    print(f"{share:.2%} delivered, p50 {p50:.2f} s, p99 {p99:.2f} s, {cpu:.1f} s of a core")
    assert share == 1.0
    assert p99 < patience(LATENCY_SECONDS)
    assert all(each["restarts"] == 0 for each in reports)


def test_junk_of_ever_new_publishers_keeps_nothing_honest_from_arriving(tmp_path: Path) -> None:
    with nodes(tmp_path) as started:
        victim = started[0]
        attacker = _child("junk", "200", str(JUNK_SECONDS), str(JUNK_PER_SECOND), victim.address)
        time.sleep(patience(2.0))
        publish_all(started)
        out, _ = attacker.communicate(timeout=patience(120))
        reports = ended(started)
    share, latencies = delivered(reports)
    p99 = latencies[int(len(latencies) * 0.99)]
    late = max(each["late"][0] for each in reports)
    print(f"{share:.2%} delivered, p99 {p99:.2f} s, loop late by {late * 1000:.0f} ms at p99")
    print(f"the attacker: {out.strip()}; the victim: {reports[0]['gossip']}")
    assert share >= 0.95
    assert late < patience(LATE_SECONDS)
    assert all(each["restarts"] == 0 for each in reports)
    assert sum(each["gossip"].get("faulty", 0) for each in reports[1:]) == 0, "passed on"
