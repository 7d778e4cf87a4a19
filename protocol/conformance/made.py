"""Bundles and announcements that the node under test has never seen, under its swarm's rules."""

import os
import time
from dataclasses import dataclass, replace

import swarmproto as wire

LIFE_MS = 300_000


@dataclass(frozen=True)
class Made:
    """A bundle and its announcement, both sealed by one key."""

    bundle: wire.Bundle
    announcement: bytes

    @property
    def bundle_id(self) -> bytes:
        """What it is asked for by."""
        return wire.bundle_id(self.bundle.header_bytes)

    @property
    def offer(self) -> bytes:
        """The request that offers it."""
        header, groups = self.bundle.header_bytes, self.bundle.group_bytes
        return wire.encode_offer_request(wire.OfferRequest(self.announcement, header, groups))


@dataclass
class Maker:
    """Makes them for one swarm."""

    swarm_id: bytes
    rules: wire.SwarmRules
    sequence: int = 0

    def made(self, private_key: bytes, *, swarm_id: bytes = b"", age_ms: int = 0) -> Made:
        """Two groups of the rules' first task, announced `age_ms` ago."""
        swarm = swarm_id or self.swarm_id
        now = int(time.time() * 1000) - age_ms
        self.sequence = max(self.sequence + 1, now)
        task, level = self.rules.tasks[0]
        completions = tuple(
            wire.CompletionRecord(f"answer {number}", "stop", 1)
            for number in range(self.rules.completions_min)
        )
        group = wire.GroupRecord(task, level, 0, bytes(32), "a question", "answer 0", completions)
        groups = [wire.encode_group(replace(group, index=index)) for index in (0, 1)]
        policy = wire.PolicyLabel("conformance", 1, bytes(32))
        bundle = wire.seal_bundle(private_key, swarm, self.sequence, now, policy, groups)
        draft = wire.AnnouncementDraft(
            instance=os.urandom(16),
            bundle_id=wire.bundle_id(bundle.header_bytes),
            size=wire.bundle_size(bundle),
            groups=tuple(
                wire.AnnouncedGroup(task, level, 1, len(completions)) for _ in bundle.group_bytes
            ),
            policy_version=1,
            created=now,
            expires=now + LIFE_MS,
            holders=(),
        )
        return Made(bundle, wire.seal_announcement(private_key, swarm, draft))
