"""What a node keeps on disk beside its key and its checkpoints; nothing here knows a round."""

from swarmnode.store.database import StoreError
from swarmnode.store.records import Event, PeerRecord, PublishedBundle, StoredRound
from swarmnode.store.sequence import SequenceNumbers
from swarmnode.store.store import Limits, Store

__all__ = [
    "Event",
    "Limits",
    "PeerRecord",
    "PublishedBundle",
    "SequenceNumbers",
    "Store",
    "StoreError",
    "StoredRound",
]
