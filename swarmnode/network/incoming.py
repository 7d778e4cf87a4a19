"""Which streams of strangers are read, before anything of them is. Pure.

One for each peer of ours; beside the doors, which count what a stranger may have over time, it
counts what is open now.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from swarmnode.network.doors import Doors

STREAMS_MAX: Final = 64
"""Streams open at once, in each direction; each costs two file descriptors with p2pd."""
STREAMS_PER_PEER_MAX: Final = 8
"""Of one peer, on our side."""
REQUEST_SECONDS: Final = 10.0
"""For a request to arrive."""
ANSWER_SECONDS: Final = 60.0
"""For an answer to be made and taken."""
HANG_UP_SECONDS: Final = 5.0
"""For the peer to hang up once it has its answer."""


class Incoming:
    """The open streams of others, by peer; without doors everybody is let in up to the limits."""

    def __init__(self, doors: Doors | None) -> None:
        self._doors = doors
        self._open: Counter[str] = Counter()

    def arrives(self, peer_id: str, address: str) -> bool:
        """Whether a stream of this peer, connected from that address, is read; then it is open."""
        mine = self._open[peer_id]
        if mine >= STREAMS_PER_PEER_MAX or self._open.total() >= STREAMS_MAX:
            return False
        if self._doors is not None:
            self._doors.whereabouts.note(peer_id, address)
            if not self._doors.admits(peer_id):
                return False
        self._open[peer_id] += 1
        return True

    def ends(self, peer_id: str) -> None:
        """One of its open streams is closed."""
        self._open[peer_id] -= 1
        if not self._open[peer_id]:
            del self._open[peer_id]
