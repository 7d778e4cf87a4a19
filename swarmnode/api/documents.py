"""The documents beside the status: what is known of a peer, what is held against it, own bundles.

Plain values on both sides of the socket; texts of peers are in them as they came.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from swarmnode.observe.part import Part
from swarmnode.store.records import PublishedBundle


class PeerStatus(Part):
    """What is known of one peer."""

    peer: str
    """Its peer id."""
    address: str = ""
    connected: bool = False
    seconds_connected: float | None = None
    fetched_bytes: int = 0
    """That we fetched from it."""
    served_bytes: int = 0
    """That it fetched from us."""
    admitted: int = 0
    """Groups of its own that entered the pool."""
    dropped: Mapping[str, int] = Field(default_factory=dict)
    """What was dropped of it, by reason."""
    muted_seconds: float = 0.0
    """How much longer it is muted; 0.0 where it isn't."""
    prefix: str = ""
    """The address prefix that it is connected from; empty where it is not connected."""
    left: Mapping[str, float] = Field(default_factory=dict)
    """What is left to it of what it may have of us, as shares, by kind: its own or its prefix's,
    whichever is less."""
    turned_away: int = 0
    """Messages of it that were turned away unread."""
    refused: bool = False
    """Whether nothing of it is let in now: it is muted, or went on sending what was turned away."""
    quality: float | None = None
    """Share of its groups that was admitted lately, near 0.5 where little is known; None where
    nothing is. Told, and never a reason for a mute."""


class PeersDocument(Part):
    """The answer to `peers`."""

    peers: tuple[PeerStatus, ...] = ()


class WhyDocument(Part):
    """The answer to `why PEER`."""

    peer: str
    """Its whole id."""
    lines: tuple[str, ...]
    """What is known and held against it, in words."""


class BundleDocument(Part):
    """One bundle that left this machine: its exact bytes, as hex."""

    created: float
    """Seconds since 1970."""
    sequence: int
    announcement: str
    header: str
    groups: tuple[str, ...]

    @classmethod
    def of(cls, bundle: PublishedBundle) -> BundleDocument:
        """From the store's record."""
        return cls(
            created=bundle.created,
            sequence=bundle.sequence,
            announcement=bundle.announcement.hex(),
            header=bundle.header.hex(),
            groups=tuple(group.hex() for group in bundle.groups),
        )


class RolloutsDocument(Part):
    """The answer to `rollouts N`: the newest first."""

    bundles: tuple[BundleDocument, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return self.model_dump(mode="json")
