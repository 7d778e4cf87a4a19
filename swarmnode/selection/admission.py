"""Admission: what may enter the pool. Pure; the collector fetches, this decides.

Two stages: an announcement is judged before anything is fetched, a bundle and its groups after.
Everything refused has a named reason that is counted; a reason says whether the sender is to
blame (REJECT: the bytes break the specification or a rule that every node knows) or not (IGNORE:
it may be of use to others, or new). Regenerating and scoring come afterwards, in the scorer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from swarmproto import (
    Announcement,
    BundleHeader,
    FetchResponse,
    GroupRecord,
    ReplayWindow,
    WireError,
    bundle_id,
    decode_group,
    open_header,
    verify_group,
)
from swarmproto import Reason as WireReason


class Verdict(StrEnum):
    """What a refusal says of the sender."""

    IGNORE = "ignore"
    REJECT = "reject"


class Reason(StrEnum):
    """Why something of a peer's was dropped; docs/metrics.md has a line for each."""

    WIRE = "wire"
    UNKNOWN_VERSION = "unknown_version"
    FOREIGN_SWARM = "foreign_swarm"
    EXPIRED = "expired"
    FROM_THE_FUTURE = "from_the_future"
    NOTHING_WANTED = "nothing_wanted"
    OVER_BUDGET = "over_budget"
    UNREACHABLE = "unreachable"
    MISSING = "missing"
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

    @property
    def verdict(self) -> Verdict:
        """REJECT where only a faulty or hostile sender can be the cause (README, section 9)."""
        blame = {Reason.WIRE, Reason.BUNDLE_DIFFERS, Reason.EQUIVOCATION}
        return Verdict.REJECT if self in blame else Verdict.IGNORE


class Refused(Exception):
    """Something of a peer's is dropped, for `reason`."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason

    @classmethod
    def by_wire(cls, error: WireError) -> Refused:
        """What breaks the wire; another version or swarm is nobody's fault (README, section 9)."""
        return cls(_NOBODYS_FAULT.get(error.reason, Reason.WIRE))


_NOBODYS_FAULT = {
    WireReason.VERSION: Reason.UNKNOWN_VERSION,
    WireReason.FOREIGN_SWARM: Reason.FOREIGN_SWARM,
}


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


def wanted_positions(
    announcement: Announcement, rules: AdmissionRules, now: float
) -> tuple[int, ...]:
    """Positions of the groups worth fetching, ascending. Raises Refused when there is none."""
    if announcement.expires / 1000 <= now:
        raise Refused(Reason.EXPIRED)
    if announcement.created / 1000 > now + rules.clock_skew_seconds:
        raise Refused(Reason.FROM_THE_FUTURE)
    wanted = tuple(
        position
        for position, group in enumerate(announcement.groups)
        if (group.task, group.level) in rules.fingerprints
        and (rules.wants_dead or 0 < group.claimed_successes < group.completions)
    )
    if not wanted:
        raise Refused(Reason.NOTHING_WANTED)
    return wanted


def open_bundle(
    announcement: Announcement, response: FetchResponse, window: ReplayWindow, swarm_id: bytes
) -> BundleHeader:
    """The verified header, in agreement with what was announced. Raises Refused."""
    if response.status != "ok" or response.header_bytes is None:
        raise Refused(Reason.MISSING)
    if bundle_id(response.header_bytes) != announcement.bundle_id:
        raise Refused(Reason.BUNDLE_DIFFERS)
    try:
        header = open_header(response.header_bytes, swarm_id)
    except WireError as error:
        raise Refused.by_wire(error) from error
    same_length = len(header.group_hashes) == len(announcement.groups)
    if header.public_key != announcement.public_key or not same_length:
        raise Refused(Reason.BUNDLE_DIFFERS)
    match window.check(header.sequence, announcement.bundle_id):
        case "equivocation":
            raise Refused(Reason.EQUIVOCATION)
        case "stale":
            raise Refused(Reason.STALE_SEQUENCE)
        case "fresh" | "duplicate":
            return header


def open_group(
    announcement: Announcement,
    header: BundleHeader,
    position: int,
    group_bytes: bytes,
    rules: AdmissionRules,
) -> GroupRecord:
    """A verified group, as announced, not yet regenerated or scored. Raises Refused.

    `header` is what `open_bundle` made of the announcement.
    """
    try:
        verify_group(header, position, group_bytes)
        record = decode_group(group_bytes)
    except WireError as error:
        raise Refused.by_wire(error) from error
    announced = announcement.groups[position]
    if (announced.task, announced.level) != (record.task, record.level):
        raise Refused(Reason.BUNDLE_DIFFERS)
    if rules.fingerprints.get((record.task, record.level)) != record.fingerprint:
        raise Refused(Reason.UNKNOWN_FINGERPRINT)
    # The publisher's own token count only serves to refuse early; ours decides when we encode.
    if any(completion.token_count > rules.completion_tokens for completion in record.completions):
        raise Refused(Reason.TOO_LONG)
    return record
