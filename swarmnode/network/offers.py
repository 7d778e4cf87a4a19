"""What a peer offers us to hold, verified to the last group before it is held.

Pure. Order of the checks: protocol/README.md, section 9; what is the reader's own (clock, rules,
agreement of header and announcement) raises OfferRefused under its name, the rest WireError.
"""

from __future__ import annotations

from typing import Final

from swarmproto import (
    Announcement,
    Bundle,
    OfferRequest,
    SwarmRules,
    bundle_id,
    bundle_size,
    decode_group,
    open_announcement,
    open_header,
    verify_group,
)

FUTURE_MS: Final = 120_000


class OfferRefused(Exception):
    """An offer that we hold nothing of; `reason` is one of our own words, for counting."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def opened_offer(
    offer: OfferRequest, swarm_id: bytes, rules: SwarmRules, now: float
) -> tuple[Announcement, Bundle]:
    """The announcement and the whole bundle. Raises WireError or OfferRefused."""
    announcement = open_announcement(offer.announcement, swarm_id)
    _refuse_unless(announcement.expires > now * 1000, "expired")
    _refuse_unless(announcement.created <= now * 1000 + FUTURE_MS, "early")
    _refuse_unless(announcement.bundle_id == bundle_id(offer.header_bytes), "another_bundle")
    header = open_header(offer.header_bytes, swarm_id)
    bundle = Bundle(header, offer.header_bytes, offer.group_bytes)
    _refuse_unless(header.public_key == announcement.public_key, "another_key")
    _refuse_unless(bundle_size(bundle) == announcement.size, "another_size")
    counts = {len(header.group_hashes), len(offer.group_bytes), len(announcement.groups)}
    _refuse_unless(len(counts) == 1, "another_count")
    _refuse_unless(len(offer.group_bytes) <= rules.groups_per_bundle_max, "rules")
    for position, encoded in enumerate(offer.group_bytes):
        verify_group(header, position, encoded)
        group, announced = decode_group(encoded), announcement.groups[position]
        level = group.task, group.level
        _refuse_unless(level == (announced.task, announced.level), "another_task")
        kept = level in rules.tasks and all(
            completion.token_count <= rules.completion_tokens_max
            for completion in group.completions
        )
        fits = rules.completions_min <= len(group.completions) <= rules.completions_max
        _refuse_unless(kept and fits, "rules")
    return announcement, bundle


def _refuse_unless(holds: bool, reason: str) -> None:
    if not holds:
        raise OfferRefused(reason)
