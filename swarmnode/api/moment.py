"""What the page is made of, at one moment: plain values, gathered by whoever serves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swarmnode.api.documents import PeerStatus
from swarmnode.config.guard_rails import GuardRails
from swarmnode.keys import public_key_of_peer
from swarmnode.observe.history import History
from swarmnode.observe.shown_groups import ShownGroup
from swarmnode.observe.status import StatusDocument

LATELY_ROUNDS = 200
"""Over which it is counted what peers contributed to training."""
OWN = "own"


@dataclass(frozen=True, slots=True)
class Moment:
    """Everything that the page shows."""

    status: StatusDocument
    earlier: StatusDocument | None
    """A status of some seconds before, against which processor time is counted."""
    peers: Sequence[PeerStatus]
    history: History
    groups: Sequence[ShownGroup]
    log: Sequence[Mapping[str, Any]]
    """The last entries, oldest first."""
    guard_rails: GuardRails

    @property
    def metrics(self) -> Mapping[str, float]:
        """Of the last round, by the names of docs/metrics.md."""
        found: Mapping[str, float] = self.history.report.get("metrics", {})
        return found


def publisher_of(peer: str) -> str:
    """By what a round's sources name the peer with that id; the id where it has no such name."""
    return public_key_of_peer(peer)[:8].hex() or peer


def names_of(peers: Sequence[PeerStatus]) -> Mapping[str, str]:
    """Peer ids by how a round's sources name them."""
    return {publisher_of(each.peer): each.peer for each in peers}


def short(peer: str) -> str:
    """Enough of a peer's id to tell it from others."""
    return peer if len(peer) <= 16 else f"{peer[:4]}…{peer[-8:]}"


def figure(value: float | None, digits: int = 3) -> str:
    """A number, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}"
