"""The values that the store keeps: plain, frozen, each one row. Knows no SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StoredRound:
    """A round's report as plain values; one that was done again after a crash is there twice."""

    number: int
    ended: float
    """Seconds since 1970."""
    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PublishedBundle:
    """The exact bytes of something that left this machine."""

    created: float
    """Seconds since 1970."""
    sequence: int
    bundle_id: bytes
    announcement: bytes
    header: bytes
    groups: tuple[bytes, ...]

    @property
    def size(self) -> int:
        """Bytes of all parts."""
        return len(self.announcement) + len(self.header) + sum(map(len, self.groups))


@dataclass(frozen=True, slots=True)
class PeerRecord:
    """What is known of a peer."""

    peer: str
    """Its peer id."""
    first_seen: float
    last_seen: float
    counts: Mapping[str, int]
    """What it brought: accepted, and by reason what was not."""
    mutes: int = 0
    """How often it was muted of late."""
    muted_until: float = 0.0
    """Seconds since 1970."""
    why: str = ""
    """In words, for people."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a person may want to know of later."""

    at: float
    """Seconds since 1970."""
    name: str
    """Lower-case words joined by `_`."""
    text: str
