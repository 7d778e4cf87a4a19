"""Keys, bundles and announcements for tests of the network."""

from __future__ import annotations

from swarmproto import (
    AnnouncedGroup,
    AnnouncementDraft,
    Bundle,
    CompletionRecord,
    GroupRecord,
    PolicyLabel,
    SwarmRules,
    bundle_id,
    bundle_size,
    encode_group,
    encode_rules,
    seal_announcement,
    seal_bundle,
    swarm_id,
)

NOW = 1_800_000_000.0
RULES = SwarmRules("made", (("basic_arithmetic", "easy"),), 2, 16, 512, 8)
RULES_BYTES = encode_rules(RULES)
SWARM = swarm_id(RULES)


def private_key(number: int) -> bytes:
    """A key by number, 1 to 255."""
    return bytes([number]) * 32


def group_bytes(index: int, *, text: str = "5", task: str = "basic_arithmetic") -> bytes:
    """An encoded group of two completions."""
    completions = (CompletionRecord(text, "stop", 2), CompletionRecord("6", "stop", 2))
    return encode_group(
        GroupRecord(task, "easy", index, b"f" * 32, f"2 + {index} =", "5", completions)
    )


def bundle(
    key: bytes,
    *,
    groups: int = 2,
    sequence: int = 1,
    text: str = "5",
    task: str = "basic_arithmetic",
    swarm: bytes = SWARM,
) -> Bundle:
    """A sealed bundle of so many groups."""
    policy = PolicyLabel("tiny", 3, bytes(32))
    encoded = [group_bytes(index, text=text, task=task) for index in range(groups)]
    return seal_bundle(key, swarm, sequence, int(NOW * 1000), policy, encoded)


def announcement(
    key: bytes,
    of: Bundle,
    *,
    created: float = NOW,
    life: float = 300.0,
    holders: tuple[str, ...] = (),
    swarm: bytes = SWARM,
    task: str = "basic_arithmetic",
) -> bytes:
    """An announcement of a bundle."""
    return seal_announcement(
        key,
        swarm,
        AnnouncementDraft(
            instance=b"i" * 16,
            bundle_id=bundle_id(of.header_bytes),
            size=bundle_size(of),
            groups=tuple(AnnouncedGroup(task, "easy", 1, 2) for _ in of.group_bytes),
            policy_version=3,
            created=int(created * 1000),
            expires=int((created + life) * 1000),
            holders=holders,
        ),
    )
