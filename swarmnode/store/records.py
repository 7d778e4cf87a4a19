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
class Evidence:
    """What a peer's group came in, from which anybody can see that its author signed it."""

    holder: str
    """The address that served it, which may not be its author's."""
    header: bytes
    """The signed header of the bundle."""
    group: bytes
    """One of the bundle's groups, as it was sent."""


@dataclass(frozen=True, slots=True)
class NewRollout:
    """A question with its scored group, own or a peer's."""

    at: float
    """When it was scored, in seconds since 1970."""
    own: bool
    publisher: bytes
    """The public key whose question stream the question belongs to."""
    task: str
    level: str
    question: int
    """Its index in that stream."""
    successes: int
    completions: int
    round: int
    """The round that was under way."""
    content: Mapping[str, Any]
    """Texts, scores and the policy that sampled, as plain JSON values."""
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class Treatment:
    """What a training step made of a rollout that is kept."""

    publisher: bytes
    task: str
    level: str
    question: int
    trained_in: int | None
    """The step's round; None where the step left it out."""
    content: Mapping[str, Any]
    """Plain JSON values."""


@dataclass(frozen=True, slots=True)
class StoredRollout:
    """A rollout with the number that it is found by, and what was made of it since."""

    number: int
    rollout: NewRollout
    trained_in: int | None
    """The last round that trained on it; None: none did."""
    treatment: Mapping[str, Any]
    """Empty without a step."""


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
