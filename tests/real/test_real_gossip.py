"""Gossip over eight nodes on py-libp2p, a process each: what arrives, how late, under junk."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path

import pytest

from tests.real.gossip_nodes import child, delivered, nodes, publish_all
from tests.real.real_support import patience

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
LATENCY_SECONDS = 2.0
JUNK_PER_SECOND = 500.0
JUNK_SECONDS = 15.0
LATE_SECONDS = 0.05


def test_all_announcements_arrive_at_everybody_in_time(tmp_path: Path) -> None:
    with nodes(tmp_path, ["libp2p"] * NODES, patience(30)) as started:
        reports = publish_all(started, ANNOUNCEMENTS // NODES, PER_SECOND, patience(20.0))
    share, latencies = delivered(reports)
    p50, p99 = (latencies[int(len(latencies) * part)] for part in (0.5, 0.99))
    cpu = sum(each["cpu_seconds"] for each in reports)
    print(f"{share:.2%} delivered, p50 {p50:.2f} s, p99 {p99:.2f} s, {cpu:.1f} s of a core")
    assert share == 1.0
    assert p99 < patience(LATENCY_SECONDS)
    assert all(each["restarts"] == 0 for each in reports)


def test_junk_of_ever_new_publishers_keeps_nothing_honest_from_arriving(tmp_path: Path) -> None:
    with nodes(tmp_path, ["libp2p"] * NODES, patience(30)) as started:
        victim = started[0]
        attacker = child("junk", "200", str(JUNK_SECONDS), str(JUNK_PER_SECOND), victim.address)
        time.sleep(patience(2.0))
        reports = publish_all(started, ANNOUNCEMENTS // NODES, PER_SECOND, patience(20.0))
        out, _ = attacker.communicate(timeout=patience(120))
    share, latencies = delivered(reports)
    p99 = latencies[int(len(latencies) * 0.99)]
    late = max(each["late"][0] for each in reports)
    print(f"{share:.2%} delivered, p99 {p99:.2f} s, loop late by {late * 1000:.0f} ms at p99")
    print(f"the attacker: {out.strip()}; the victim: {reports[0]['gossip']}")
    assert share >= 0.95
    assert late < patience(LATE_SECONDS)
    assert all(each["restarts"] == 0 for each in reports)
    assert sum(each["gossip"].get("faulty", 0) for each in reports[1:]) == 0, "passed on"
