"""Gossip by library, nodes and rate: what arrives, how late, at what cost, and where it breaks.

Nodes are those of tests/real/gossiping.py, a process each, which listen to the topic of a swarm and
are told to publish announcements at a rate for all together. Rates rise until too little arrives.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from swarmnode.network.choice import Library
from tests.benchmarks.network_namespace import loopback_bytes
from tests.benchmarks.network_rows import GossipLayout, Row, percentile
from tests.real.gossip_nodes import Node, delivered, nodes, publish_all

RATES = (1.0, 5.0, 10.0, 20.0, 40.0, 80.0)
"""Announcements a second, of all nodes."""
SECONDS = 15.0
JOIN_SECONDS = 60.0
WAIT_SECONDS = 15.0
"""That is waited for what is late."""
BROKEN_SHARE = 0.95
"""From so little on no higher rate is tried."""


def libraries(layout: GossipLayout, count: int) -> list[Library]:
    """By node; of a mixed swarm every second one, the first on hivemind."""
    if layout == "gossip-mixed":
        return ["libp2p" if number % 2 else "hivemind" for number in range(count)]
    return ["libp2p" if layout == "gossip-libp2p" else "hivemind"] * count


def measure(layout: GossipLayout, count: int, rates: Sequence[float] = RATES) -> Row:
    """A swarm of `count` nodes in the network that this process is in."""
    figures: dict[str, float] = {}
    with (
        TemporaryDirectory(prefix="ng", ignore_cleanup_errors=True) as folder,
        nodes(Path(folder), libraries(layout, count), JOIN_SECONDS) as started,
    ):
        for rate in rates:
            found = _at(started, rate)
            figures |= {f"{rate:g}/{name}": value for name, value in found.items()}
            print(f"          {rate:g} a second: {found['share']:.1%} arrived", flush=True)
            if found["share"] < BROKEN_SHARE:
                break
    return Row(layout, count, 0.0, {}, {**figures, "load": os.getloadavg()[1]})


def _at(started: Sequence[Node], rate: float) -> dict[str, float]:
    each = max(1, round(rate * SECONDS / len(started)))
    before = loopback_bytes()
    reports = publish_all(started, each, rate, WAIT_SECONDS)
    sent = loopback_bytes() - before
    share, seconds = delivered(reports)
    deliveries = max(1, len(seconds))
    return {
        "share": share,
        "p50": percentile(seconds, 0.5) if seconds else 0.0,
        "p99": percentile(seconds, 0.99) if seconds else 0.0,
        "cpu": sum(report["cpu_seconds"] for report in reports) / deliveries,
        "bytes": sent / deliveries,
        "late_p99": max(report["late"][0] for report in reports),
    }
