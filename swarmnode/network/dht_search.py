"""The search for the peers nearest to a key, and for what they hold: its state, no messages.

Every peer of our own table that is near enough is asked, whatever others name, and of what one
peer names only the nearest count: one liar can add work, not hide the rest. Pure; peers are any
values with an order of places. Source: Kademlia (Maymounkov and Mazieres, 2002), section 2.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from swarmnode.network.dht_records import Record

Peer = TypeVar("Peer")


class Search(Generic[Peer]):
    """How far the search for the peers nearest to one key has come.

    `copies` is the number of peers whose records are wanted too, the first that are asked; the
    others are asked for the neighbour of the key, near which the same peers are and no records.
    """

    def __init__(
        self,
        key: int,
        own_table: Sequence[Peer],
        width: int,
        place_of: Callable[[Peer], int],
        copies: int = 0,
    ) -> None:
        self.key: Final = key
        self.answered: Final[set[Peer]] = set()
        self.records: Final[dict[str, Record]] = {}
        self.copies = copies
        self._read: set[Peer] = set()
        self._width = width
        self._place_of = place_of
        self._asked: set[Peer] = set()
        self._known: dict[Peer, int] = {}
        self.learn(own_table)

    def learn(self, peers: Sequence[Peer]) -> None:
        """Of what one peer names only the nearest count, so that no one fills the search."""
        distances = {peer: self._place_of(peer) ^ self.key for peer in peers}
        for peer in sorted(distances, key=distances.__getitem__)[: self._width]:
            self._known[peer] = distances[peer]

    def next(self) -> list[Peer]:
        """Peers to ask now: of the nearest that have not failed, those not asked yet."""
        failed = self._asked - self.answered
        chosen = [peer for peer in self._nearest(set(self._known) - failed)[: self._width]]
        chosen = [peer for peer in chosen if peer not in self._asked]
        self._asked.update(chosen)
        return chosen

    def place_for(self, peer: Peer) -> int:
        """What to ask this peer for: the key, or its neighbour."""
        if len(self._read) >= self.copies:
            return self.key ^ 1
        self._read.add(peer)
        return self.key

    def failed(self, peer: Peer) -> None:
        """It gave no answer, so another one is read in its place."""
        self._read.discard(peer)

    def unread(self, replicas: int) -> list[Peer]:
        """Peers to read yet, so that `copies` of the nearest `replicas` have been read."""
        nearest = self.nearest_that_answered()[:replicas]
        unread = [peer for peer in nearest if peer not in self._read]
        return unread[: max(0, self.copies - len(nearest) + len(unread))]

    def find(self, subkey: str, record: Record) -> None:
        """A valid record; per subkey the latest expiry wins."""
        before = self.records.get(subkey)
        if before is None or before.expires < record.expires:
            self.records[subkey] = record

    def nearest_that_answered(self) -> list[Peer]:
        """The nearest first."""
        return self._nearest(self.answered)

    def _nearest(self, peers: set[Peer]) -> list[Peer]:
        return sorted(peers, key=self._known.__getitem__)
