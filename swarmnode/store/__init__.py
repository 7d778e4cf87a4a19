"""What a node keeps on disk beside its key and its checkpoints; nothing here knows a round."""

from swarmnode.store.database import StoreError
from swarmnode.store.records import (
    Event,
    Evidence,
    NewRollout,
    PeerRecord,
    PublishedBundle,
    StoredRollout,
    StoredRound,
    Treatment,
)
from swarmnode.store.sequence import SequenceNumbers
from swarmnode.store.store import Limits, Store

__all__ = [
    "Event",
    "Evidence",
    "Limits",
    "NewRollout",
    "PeerRecord",
    "PublishedBundle",
    "SequenceNumbers",
    "Store",
    "StoreError",
    "StoredRollout",
    "StoredRound",
    "Treatment",
]
