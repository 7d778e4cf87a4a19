"""The routing table: hivemind's, with places that nobody chooses and a bound that it lacks.

Knows no messages. Source: Kademlia (Maymounkov and Mazieres, 2002), section 2.2.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

from swarmnode.network.light_hivemind import DHTID, RoutingTable

BUCKET_SIZE: Final = 20
_DEPTH_MODULO: Final = 5


def node_id_of(peer: Any) -> Any:
    """The place of a peer in the DHT, from its id; 160 bits."""
    return DHTID.from_bytes(hashlib.sha1(peer.to_bytes(), usedforsecurity=False).digest())


class Neighbours:
    """Peers that take part in the DHT, more of them the nearer to us."""

    def __init__(self, ourselves: Any) -> None:
        self._ourselves = ourselves
        self._table = RoutingTable(node_id_of(ourselves), BUCKET_SIZE, _DEPTH_MODULO)

    def __len__(self) -> int:
        return len(self._table.uid_to_peer_id)

    def nearest(self, place: int, count: int) -> list[Any]:
        """At most so many peers near a place, the nearest first."""
        return [peer for _, peer in self._table.get_nearest_neighbors(DHTID(place), count)]

    def met(self, peer: Any) -> Any:
        """It has answered or asked. Returns a peer whose place it could take, or None."""
        if peer == self._ourselves:
            return None
        node_id = node_id_of(peer)
        bucket = self._table.buckets[self._table.get_bucket_index(node_id)]
        if len(bucket.replacement_nodes) >= BUCKET_SIZE and node_id not in self._table:
            return None
        questionable = self._table.add_or_update_node(node_id, peer)
        return questionable[1] if questionable is not None else None

    def forget(self, peer: Any) -> None:
        """It did not answer."""
        node_id = node_id_of(peer)
        if node_id in self._table:
            del self._table[node_id]
