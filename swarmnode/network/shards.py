"""Where announcements lie in the DHT: keys by time and by a prefix of the publisher's hash.

Pure: time, sizes and keys come in. A key is f"{swarm}/announcements/{bucket}/{prefix}": the bucket
is a minute of the publisher's clock, the prefix the first bits of SHA-256 of its public key. All
nodes guess the number of bits from what they see; each publishes at its level and at the one
above it, so guesses that differ by one still meet. Source: network.md §4.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from statistics import median
from typing import Final

from swarmproto import Announcement

BUCKET_SECONDS: Final = 60
TARGET_PUBLISHERS: Final = 32
"""Publishers that a shard should have: about 11 KB of announcements."""
LEVEL_MAX: Final = 12
"""Bits of a prefix at most: 131 072 publishers at the target."""

_BUCKETS_REMEMBERED: Final = 5
_OBSERVATIONS_PER_BUCKET: Final = 32
_CHANGE_PER_BUCKET: Final = 4.0


def bucket_of(now: float) -> int:
    """The bucket of a time in seconds since 1970."""
    return math.floor(now / BUCKET_SECONDS)


def readable_buckets(now: float) -> tuple[int, ...]:
    """Buckets that may hold fresh announcements, the likeliest first; the last two for skew."""
    bucket = bucket_of(now)
    return bucket, bucket - 1, bucket - 2, bucket + 1


def prefix_of(public_key: bytes, level: int) -> str:
    """The first `level` bits of the key's hash, as text."""
    bits = int.from_bytes(hashlib.sha256(public_key).digest()[:4])
    return f"{bits:032b}"[:level]


def shard_key(swarm_id: bytes, bucket: int, prefix: str) -> str:
    """The DHT key of a shard."""
    return f"{swarm_id.hex()}/announcements/{bucket}/{prefix}"


def level_for(swarm_size: float) -> int:
    """Bits of prefix at which shards have about TARGET_PUBLISHERS."""
    if swarm_size <= TARGET_PUBLISHERS:
        return 0
    return min(math.ceil(math.log2(swarm_size / TARGET_PUBLISHERS)), LEVEL_MAX)


def publishing_keys(swarm_id: bytes, public_key: bytes, bucket: int, level: int) -> tuple[str, ...]:
    """The keys that an announcement is stored under in a bucket: at its level and the parent's."""
    levels = (level, level - 1) if level else (0,)
    return tuple(shard_key(swarm_id, bucket, prefix_of(public_key, each)) for each in levels)


def keys_of(announcement: Announcement) -> frozenset[str]:
    """Every key that the announcement may lie under: buckets of its life, prefixes of its key."""
    first, last = (bucket_of(time / 1000) for time in (announcement.created, announcement.expires))
    return frozenset(
        shard_key(announcement.swarm_id, bucket, prefix_of(announcement.public_key, level))
        for bucket in range(first, last + 1)
        for level in range(LEVEL_MAX + 1)
    )


def subkey_of(public_key: bytes) -> str:
    """The one subkey under which a publisher stores: its public key in hex."""
    return public_key.hex()


class SizeEstimate:
    """The number of publishers in the swarm, from how many were seen in shards.

    A bucket's figure is the median of what was seen in it, within a quarter and 4 times of what
    was known before it; the estimate is the median over the last five buckets. So nobody who floods
    or empties shards for a minute moves it.
    """

    def __init__(self) -> None:
        self._bucket = 0
        self._seen: deque[float] = deque(maxlen=_OBSERVATIONS_PER_BUCKET)
        self._closed: deque[float] = deque(maxlen=_BUCKETS_REMEMBERED - 1)

    def observe(self, bucket: int, level: int, publishers: int) -> None:
        """A shard of `level` bits, looked at in the `bucket` of our clock, had `publishers`."""
        if bucket != self._bucket:
            if self._seen:
                self._closed.append(self._figure())
            self._bucket = bucket
            self._seen.clear()
        self._seen.append(float(publishers * 2**level))

    def has_seen(self, bucket: int) -> bool:
        """Whether a shard was looked at in this bucket of our clock."""
        return bucket == self._bucket and bool(self._seen)

    @property
    def value(self) -> float:
        """Publishers, 0.0 before anything was seen."""
        figures = [*self._closed, self._figure()] if self._seen else [*self._closed]
        return median(figures) if figures else 0.0

    @property
    def level(self) -> int:
        """Bits of prefix that follow from it."""
        return level_for(self.value)

    def _figure(self) -> float:
        before = median(self._closed) if self._closed else 0.0
        high = max(before, TARGET_PUBLISHERS) * _CHANGE_PER_BUCKET
        return min(max(median(self._seen), before / _CHANGE_PER_BUCKET), high)
