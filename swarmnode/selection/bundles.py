"""The second stage of admission: what a holder answered, against what was announced. Pure.

In the order of protocol/README.md, section 9. An answer of which anything is REJECTed is refused as
a whole, so that what is taken of it never depends on the order of its groups; groups that are
IGNOREd are left out alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from swarmnode.selection.admission import (
    AdmissionRules,
    Reason,
    Refused,
    Verdict,
    refused_envelope,
)
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


@dataclass(frozen=True, slots=True)
class Opened:
    """What a holder's answer is worth; nothing of it is regenerated or scored yet."""

    header: BundleHeader
    header_bytes: bytes
    groups: Mapping[int, GroupRecord]
    """By position."""
    group_bytes: Mapping[int, bytes]
    """All that was answered, by position: these need not be asked for again."""
    left_out: Sequence[Refused]


def open_answer(
    announcement: Announcement,
    response: FetchResponse,
    asked: Collection[int],
    window: ReplayWindow,
    rules: AdmissionRules,
    now: float,
) -> Opened:
    """The verified bundle, as announced, with those of its groups that we take. Raises Refused.

    `asked` are the positions that were asked for, `window` the author's.
    """
    author = announcement.public_key
    if response.status != "ok" or response.header_bytes is None:
        raise Refused(Reason.BUSY if response.status == "busy" else Reason.MISSING, author)
    if any(position not in asked for position, _ in response.groups):
        raise Refused(Reason.UNASKED, author)
    header = _opened_header(announcement, response.header_bytes, window, rules, now)
    groups: dict[int, GroupRecord] = {}
    left_out: list[Refused] = []
    for position, data in response.groups:
        try:
            groups[position] = _opened_group(announcement, header, position, data, rules)
        except Refused as refusal:
            if refusal.reason.verdict is Verdict.REJECT:
                raise
            left_out.append(refusal)
    # Only now that every group is known to be the author's own can its size be held against it.
    received = len(response.header_bytes) + sum(len(data) for _, data in response.groups)
    if received > announcement.size:
        raise Refused(Reason.BUNDLE_DIFFERS, author)
    return Opened(header, response.header_bytes, groups, dict(response.groups), left_out)


def _opened_header(
    announcement: Announcement,
    data: bytes,
    window: ReplayWindow,
    rules: AdmissionRules,
    now: float,
) -> BundleHeader:
    author = announcement.public_key
    if bundle_id(data) != announcement.bundle_id:
        raise Refused(Reason.HASH, author)
    try:
        header = open_header(data, rules.swarm_id)
    except WireError as error:
        raise Refused(refused_envelope(error, data).reason, author) from error
    same_length = len(header.group_hashes) == len(announcement.groups)
    if header.public_key != author or not same_length:
        raise Refused(Reason.BUNDLE_DIFFERS, author)
    if header.created / 1000 > now + rules.clock_skew_seconds:
        raise Refused(Reason.FROM_THE_FUTURE, author)
    match window.check(header.sequence, announcement.bundle_id):
        case "equivocation":
            raise Refused(Reason.EQUIVOCATION, author)
        case "stale":
            raise Refused(Reason.STALE_SEQUENCE, author)
        case "fresh" | "duplicate":
            return header


def _opened_group(
    announcement: Announcement,
    header: BundleHeader,
    position: int,
    data: bytes,
    rules: AdmissionRules,
) -> GroupRecord:
    author = announcement.public_key
    try:
        verify_group(header, position, data)
    except WireError as error:
        raise Refused(Reason.HASH, author) from error
    try:
        record = decode_group(data)
    except WireError as error:
        raise Refused(Reason.SCHEMA, author) from error
    announced = announcement.groups[position]
    if (announced.task, announced.level) != (record.task, record.level):
        raise Refused(Reason.BUNDLE_DIFFERS, author)
    # The publisher's own token count only serves to refuse early; ours decides when we encode.
    longest = max(completion.token_count for completion in record.completions)
    if not rules.allows(len(record.completions)) or longest > rules.completion_tokens_max:
        raise Refused(Reason.SWARM_RULES, author)
    if rules.fingerprints.get((record.task, record.level)) != record.fingerprint:
        raise Refused(Reason.UNKNOWN_FINGERPRINT, author)
    if longest > rules.completion_tokens:
        raise Refused(Reason.TOO_LONG, author)
    return record
