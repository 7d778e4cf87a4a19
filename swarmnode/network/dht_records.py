"""Which records the DHT may hold, and where those that we hold for others lie.

A record is a signed announcement under a key of its time and shard and a subkey of its author; in
a private swarm it is sealed, and key and subkey follow from the swarm's key as well.
Everybody checks it, on every store and in every answer to a search, so replicas need no trust.
Knows no hivemind and no network. Keys are 20 bytes (see `key_id`), times seconds since 1970.
Invariants: nothing is held that the validator refused; the store stays within its limits whatever
is put. Source: network.md sections 1 and 4, security.md section 3.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgpack

from swarmproto import (
    ANNOUNCEMENT_BYTES_MAX,
    ANNOUNCEMENT_LIFETIME_MS_MAX,
    Announcement,
    Reason,
    SwarmSecret,
    WireError,
    open_announcement,
)

CLOCK_SKEW_SECONDS: Final = 120.0
"""How far ahead of ours an author's clock may be."""
KEY_BYTES: Final = 20
RECORDS_MAX: Final = 16_384
STORE_BYTES_MAX: Final = 16 * 1024 * 1024
RECORDS_PER_KEY_MAX: Final = 256

_VERIFIED_MAX: Final = 4096
_RECORD_OVERHEAD_BYTES: Final = 256
_EXPIRY_TOLERANCE_SECONDS: Final = 0.001


def key_id(key: str) -> bytes:
    """The 20 bytes that stand for a key: SHA-1 of its msgpack form, as hivemind has it."""
    packed: bytes = msgpack.packb(key)
    return hashlib.sha1(packed, usedforsecurity=False).digest()


class Refusal(StrEnum):
    """Why a record is not held."""

    SIZE = "size"
    EXPIRED = "expired"
    TOO_LATE = "too_late"
    FUTURE = "future"
    FOREIGN_SWARM = "foreign_swarm"
    SEAL = "seal"
    WIRE = "wire"
    OWNER = "owner"
    EXPIRY = "expiry"
    KEY = "key"


_REFUSALS: Final = {
    Reason.FOREIGN_SWARM: Refusal.FOREIGN_SWARM,
    Reason.SEAL: Refusal.SEAL,
}


class _Verified(NamedTuple):
    subkey: str
    created: float
    expires: float


class AnnouncementValidator:
    """Judges records by their signature, owner, times and place.

    `keys_of` gives the ids of all keys that an announcement may lie under, `subkey_of` the subkey
    of a public key; `secret` is a private swarm's, and then `subkey_of` gives what a public swarm's
    would be. What was found of the last 4096 records is remembered, since every record is read
    from several replicas.
    """

    def __init__(
        self,
        swarm_id: bytes,
        keys_of: Callable[[Announcement], Collection[bytes]],
        subkey_of: Callable[[bytes], str],
        clock: Callable[[], float],
        secret: SwarmSecret | None = None,
    ) -> None:
        self._swarm_id = swarm_id
        self._keys_of = keys_of
        self._subkey_of = subkey_of
        self._clock = clock
        self._secret = secret
        self._verified: OrderedDict[tuple[bytes, bytes, str], _Verified | Refusal] = OrderedDict()

    def refusal(self, key: bytes, subkey: str, value: bytes, expires: float) -> Refusal | None:
        """Why the record is refused, None where it is good; cheap checks come first.

        Its expiry must be the announcement's own, so that an older announcement, stored again by
        anybody, never outlives a newer one.
        """
        if len(value) > ANNOUNCEMENT_BYTES_MAX:
            return Refusal.SIZE
        now = self._clock()
        if not expires > now:  # NaN too
            return Refusal.EXPIRED
        if expires > now + ANNOUNCEMENT_LIFETIME_MS_MAX / 1000 + CLOCK_SKEW_SECONDS:
            return Refusal.TOO_LATE
        verified = self._verify(key, subkey, value)
        if isinstance(verified, Refusal):
            return verified
        if verified.subkey != subkey:
            return Refusal.OWNER
        if abs(verified.expires - expires) > _EXPIRY_TOLERANCE_SECONDS:
            return Refusal.EXPIRY
        if verified.created > now + CLOCK_SKEW_SECONDS:
            return Refusal.FUTURE
        return None

    def _verify(self, key: bytes, subkey: str, value: bytes) -> _Verified | Refusal:
        known = (hashlib.sha256(value).digest(), key, subkey)
        if known in self._verified:
            self._verified.move_to_end(known)
            return self._verified[known]
        verified = self._verified[known] = self._open(key, subkey, value)
        if len(self._verified) > _VERIFIED_MAX:
            self._verified.popitem(last=False)
        return verified

    def _open(self, key: bytes, subkey: str, value: bytes) -> _Verified | Refusal:
        try:
            if self._secret is not None:
                value = self._secret.open_record(key, subkey, value)
            announcement = open_announcement(value, self._swarm_id)
        except WireError as error:
            return _REFUSALS.get(error.reason, Refusal.WIRE)
        if key not in self._keys_of(announcement):
            return Refusal.KEY
        own = self._subkey_of(announcement.public_key)
        if self._secret is not None:
            own = self._secret.subkey(key, own)
        return _Verified(own, announcement.created / 1000, announcement.expires / 1000)


class Record(NamedTuple):
    """A value and when it expires."""

    value: bytes
    expires: float


class RecordStore:
    """Records by key and subkey, bounded in number and bytes and per key.

    Eviction: soonest to expire goes first, of one key where that is full, else of all, a sixteenth
    at a time. Per subkey the latest expiry wins.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        records_max: int = RECORDS_MAX,
        bytes_max: int = STORE_BYTES_MAX,
        records_per_key_max: int = RECORDS_PER_KEY_MAX,
    ) -> None:
        self._clock = clock
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._records_per_key_max = records_per_key_max
        self._keys: dict[bytes, dict[str, Record]] = {}
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        """Records held; expired ones count until they are looked at or pushed out."""
        return self._count

    @property
    def size(self) -> int:
        """Bytes held, with an estimate of what the bookkeeping takes."""
        return self._bytes

    def put(self, key: bytes, subkey: str, value: bytes, expires: float) -> bool:
        """Whether exactly this record is held afterwards. The caller has validated it."""
        records = self._keys.get(key, {})
        before = records.get(subkey)
        if before is not None and before.expires >= expires:
            return before == Record(value, expires)
        if before is not None:
            self._drop(key, subkey)
        elif len(records) >= self._records_per_key_max:
            soonest = min(records, key=lambda each: records[each].expires)
            if records[soonest].expires >= expires:
                return False
            self._drop(key, soonest)
        self._keys.setdefault(key, {})[subkey] = Record(value, expires)
        self._count += 1
        self._bytes += _weight(subkey, value)
        if self._count > self._records_max or self._bytes > self._bytes_max:
            self._make_room()
        return subkey in self._keys.get(key, {})

    def get(self, key: bytes) -> Mapping[str, Record]:
        """The records of a key that have not expired."""
        now = self._clock()
        for subkey, record in list(self._keys.get(key, {}).items()):
            if record.expires <= now:
                self._drop(key, subkey)
        return dict(self._keys.get(key, {}))

    def size_of(self, key: bytes) -> int:
        """Bytes held under a key, those that have expired included."""
        records = self._keys.get(key, {})
        return sum(len(subkey) + len(record.value) for subkey, record in records.items())

    def records(self) -> Iterator[tuple[bytes, str, Record]]:
        """Everything held that has not expired."""
        for key in list(self._keys):
            for subkey, record in self.get(key).items():
                yield key, subkey, record

    def _drop(self, key: bytes, subkey: str) -> None:
        record = self._keys[key].pop(subkey)
        if not self._keys[key]:
            del self._keys[key]
        self._count -= 1
        self._bytes -= _weight(subkey, record.value)

    def _make_room(self) -> None:
        # A sixteenth at a time, so that a flood pays for the sorting once in many records.
        by_expiry = sorted(
            (record.expires, key, subkey)
            for key, records in self._keys.items()
            for subkey, record in records.items()
        )
        for _, key, subkey in by_expiry:
            fits = self._count <= self._records_max * 15 // 16
            if fits and self._bytes <= self._bytes_max * 15 // 16:
                return
            self._drop(key, subkey)


def _weight(subkey: str, value: bytes) -> int:
    return len(subkey) + len(value) + _RECORD_OVERHEAD_BYTES
