"""What the network benchmark measures, as plain values that its JSON file holds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tests.benchmarks.network_namespace import Reading

LibraryLayout = Literal["swarmnode", "libp2p", "mixed"]
"""Ours on hivemind, on py-libp2p, and half on either."""
GossipLayout = Literal["gossip-hivemind", "gossip-libp2p", "gossip-mixed"]
"""Announcements alone, by gossip, at several rates."""
Layout = LibraryLayout | Literal["crowded", "rl-swarm", "simulated"] | GossipLayout
"""Beside those: ours with two publishers a shard; whole batches under one key; ours in virtual
time."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a node took in one round, on average over the nodes."""

    sent: float
    """Bytes."""
    python: float
    """CPU seconds."""
    p2pd: float
    """CPU seconds."""


@dataclass(frozen=True, slots=True)
class Row:
    """A swarm that was measured: its rounds by what went on in them, and single figures."""

    layout: Layout
    nodes: int
    round_seconds: float
    rounds: Mapping[str, Sequence[Round]]
    figures: Mapping[str, float]

    def bytes_in(self, name: str) -> float:
        """Median bytes a node and round."""
        return statistics.median(each.sent for each in self.rounds[name])

    def python_in(self, name: str) -> float:
        """Median CPU seconds of Python a node and round."""
        return statistics.median(each.python for each in self.rounds[name])

    def p2pd_in(self, name: str) -> float:
        """Median CPU seconds of p2pd a node and round."""
        return statistics.median(each.p2pd for each in self.rounds[name])


def between(before: Reading, after: Reading, nodes: int) -> Round:
    """What a node took between two readings."""
    return Round(
        (after.sent - before.sent) / nodes,
        (after.python - before.python) / nodes,
        (after.p2pd - before.p2pd) / nodes,
    )


def as_json(row: Row) -> dict[str, Any]:
    """Plain values."""
    return asdict(row)


def from_json(values: Mapping[str, Any]) -> Row:
    """The row of plain values."""
    rounds = {name: [Round(**each) for each in found] for name, found in values["rounds"].items()}
    return Row(**{**values, "rounds": rounds})


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]
