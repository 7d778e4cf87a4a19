"""Admission: what may enter the pool, and who is to blame for what may not. Pure.

Two stages: an announcement is judged before anything is fetched, here; a bundle and its groups
after, in bundles.py. Everything refused has a named reason that is counted. A reason says what it
means for the peer that it concerns: REJECT where the bytes break the specification or a rule that
every node knows, IGNORE where they may be of use to others, or new. And it says which peer that is:
whoever delivered the bytes, or who signed them. A hash or a signature that is wrong is the
deliverer's fault, since honest peers pass on only what they verified; what a valid signature covers
is its author's. An announcement names its bundle by hash, so that its author answers for all of it.

Regenerating and scoring come afterwards, in the scorer. Source: protocol/README.md, section 9.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from swarmproto import (
    COMPLETION_TOKENS_MAX,
    COMPLETIONS_MAX,
    COMPLETIONS_MIN,
    GROUP_BYTES_MAX,
    GROUPS_PER_BUNDLE_MAX,
    HEADER_BYTES_MAX,
    Announcement,
    WireError,
    open_announcement,
)
from swarmproto import Reason as WireReason

_KEY_AT, _BODY_AT = 37, 133
"""Where an envelope's public key and body begin (protocol/README.md, section 5)."""


class Verdict(StrEnum):
    """What a refusal says of the peer that it concerns."""

    IGNORE = "ignore"
    REJECT = "reject"


class Concerned(StrEnum):
    """Which peer a refusal concerns."""

    DELIVERER = "deliverer"
    AUTHOR = "author"


class Reason(StrEnum):
    """Why something of a peer's was dropped; docs/metrics.md has a line for each."""

    WIRE = "wire"
    SIGNATURE = "signature"
    SCHEMA = "schema"
    UNKNOWN_VERSION = "unknown_version"
    FOREIGN_SWARM = "foreign_swarm"
    MUTED = "muted"
    EXPIRED = "expired"
    FROM_THE_FUTURE = "from_the_future"
    SWARM_RULES = "swarm_rules"
    NOTHING_WANTED = "nothing_wanted"
    TOO_LARGE = "too_large"
    OVER_BUDGET = "over_budget"
    UNREACHABLE = "unreachable"
    MISSING = "missing"
    BUSY = "busy"
    UNASKED = "unasked"
    HASH = "hash"
    BUNDLE_DIFFERS = "bundle_differs"
    STALE_SEQUENCE = "stale_sequence"
    EQUIVOCATION = "equivocation"
    UNKNOWN_TASK = "unknown_task"
    UNKNOWN_FINGERPRINT = "unknown_fingerprint"
    TOO_LONG = "too_long"
    GROUP_REPEATED = "group_repeated"
    QUESTION_DIFFERS = "question_differs"
    HELD_OUT = "held_out"
    UNSCORABLE = "unscorable"
    SCORER_KILLED = "scorer_killed"
    SCORER_SLOW = "scorer_slow"
    SCORER_BUDGET = "scorer_budget"

    @property
    def verdict(self) -> Verdict:
        """REJECT where only a faulty or hostile peer can be the cause."""
        return Verdict.REJECT if self in _REJECTED else Verdict.IGNORE

    @property
    def concerns(self) -> Concerned:
        """Whom it is counted for and, under REJECT, held against."""
        return Concerned.DELIVERER if self in _DELIVERED else Concerned.AUTHOR


_REJECTED = {
    Reason.WIRE,
    Reason.SIGNATURE,
    Reason.SCHEMA,
    Reason.UNASKED,
    Reason.HASH,
    Reason.BUNDLE_DIFFERS,
    Reason.EQUIVOCATION,
}

_DELIVERED = {
    Reason.WIRE,
    Reason.SIGNATURE,
    Reason.UNKNOWN_VERSION,
    Reason.FOREIGN_SWARM,
    Reason.UNREACHABLE,
    Reason.MISSING,
    Reason.BUSY,
    Reason.UNASKED,
    Reason.HASH,
}

_OF_ENVELOPES = {
    WireReason.OVERSIZE: Reason.WIRE,
    WireReason.MAGIC: Reason.WIRE,
    WireReason.VERSION: Reason.UNKNOWN_VERSION,
    WireReason.FOREIGN_SWARM: Reason.FOREIGN_SWARM,
    WireReason.PUBLIC_KEY: Reason.SIGNATURE,
    WireReason.SIGNATURE: Reason.SIGNATURE,
}
"""What is found before a signature has been verified, beside envelopes that are too short."""


class Refused(Exception):
    """Something of a peer's is dropped, for `reason`; `author` is whose key signed it, if known."""

    def __init__(self, reason: Reason, author: bytes = b"") -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.author = author


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What this node takes."""

    swarm_id: bytes
    fingerprints: Mapping[tuple[str, str], bytes]
    """By task and level, of all that this node trains on."""
    completion_tokens: int
    """Own limit of new tokens; a group with a longer completion is refused."""
    clock_skew_seconds: float
    wants_dead: bool
    """Whether groups claimed to be all right or all wrong are worth fetching."""
    completions_min: int = COMPLETIONS_MIN
    """The swarm's rule, per group; as are the next three."""
    completions_max: int = COMPLETIONS_MAX
    completion_tokens_max: int = COMPLETION_TOKENS_MAX
    groups_per_bundle_max: int = GROUPS_PER_BUNDLE_MAX

    def allows(self, completions: int) -> bool:
        """Whether the swarm's rules allow a group of so many completions."""
        return self.completions_min <= completions <= self.completions_max


def open_delivered(data: bytes, swarm_id: bytes) -> Announcement:
    """A verified announcement, fresh or not. Raises Refused."""
    try:
        return open_announcement(data, swarm_id)
    except WireError as error:
        raise refused_envelope(error, data) from error


def wanted_positions(
    announcement: Announcement, rules: AdmissionRules, now: float
) -> tuple[int, ...]:
    """Positions of the groups worth fetching, ascending. Raises Refused when there is none."""
    author, groups = announcement.public_key, announcement.groups
    if announcement.expires / 1000 <= now:
        raise Refused(Reason.EXPIRED, author)
    if announcement.created / 1000 > now + rules.clock_skew_seconds:
        raise Refused(Reason.FROM_THE_FUTURE, author)
    allowed = any(rules.allows(group.completions) for group in groups)
    if len(groups) > rules.groups_per_bundle_max or not allowed:
        raise Refused(Reason.SWARM_RULES, author)
    wanted = tuple(
        position
        for position, group in enumerate(groups)
        if (group.task, group.level) in rules.fingerprints
        and rules.allows(group.completions)
        and (rules.wants_dead or 0 < group.claimed_successes < group.completions)
    )
    if not wanted:
        raise Refused(Reason.NOTHING_WANTED, author)
    if announcement.size > HEADER_BYTES_MAX + len(groups) * GROUP_BYTES_MAX:
        raise Refused(Reason.TOO_LARGE, author)
    return wanted


def refused_envelope(error: WireError, data: bytes) -> Refused:
    """Why bytes could not be opened; their author is known, and to blame, from the signature on."""
    if error.reason in _OF_ENVELOPES:
        return Refused(_OF_ENVELOPES[error.reason])
    if len(data) < _BODY_AT:
        return Refused(Reason.WIRE)
    return Refused(Reason.SCHEMA, data[_KEY_AT : _KEY_AT + 32])
