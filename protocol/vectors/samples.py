"""The valid records that vectors and hostile variants are made of; all values are fixed."""

import hashlib
from typing import Final

import swarmproto as wire

PRIVATE_KEY: Final = bytes(range(32))
PUBLIC_KEY: Final = wire.public_key_of(PRIVATE_KEY)
CREATED: Final = 1_764_460_800_000
RULES: Final = wire.SwarmRules(
    name="vectors",
    tasks=(("base_conversion", "easy"), ("fraction_simplification", "paper")),
    completions_min=2,
    completions_max=16,
    completion_tokens_max=512,
    groups_per_bundle_max=32,
)
SWARM_ID: Final = wire.swarm_id(RULES)
PAIRS: Final = tuple((f"What is {number} + 1?", str(number + 1)) for number in range(16))
FINGERPRINT: Final = wire.fingerprint("base_conversion", "easy", PAIRS)
POLICY: Final = wire.PolicyLabel("tiny", 7, hashlib.sha256(b"a tokenizer").digest())

PLAIN_GROUP: Final = wire.GroupRecord(
    task="base_conversion",
    level="easy",
    index=41,
    fingerprint=FINGERPRINT,
    question="What is 5 in base 2?",
    answer="101",
    completions=(
        wire.CompletionRecord("<answer>101</answer>", "stop", 3),
        wire.CompletionRecord("", "length", 16),
    ),
)
RICH_GROUP: Final = wire.GroupRecord(
    task="fraction_simplification",
    level="paper",
    index=wire.INDEX_MAX,
    fingerprint=bytes(range(32)),
    question="Vereinfache ⁶⁄₈, \U0001f9ee",
    answer="",
    completions=(
        wire.CompletionRecord("3/4\n", "stop", 2, logprobs=wire.pack_logprobs((-0.5, -2.25))),
        wire.CompletionRecord("drei Viertel", "length", 4, total_logprob=-12.5),
        wire.CompletionRecord("", "stop", 0, logprobs=b""),
    ),
)
GROUPS: Final = (wire.encode_group(PLAIN_GROUP), wire.encode_group(RICH_GROUP))
BUNDLE: Final = wire.seal_bundle(PRIVATE_KEY, SWARM_ID, CREATED, CREATED, POLICY, GROUPS)
BUNDLE_ID: Final = wire.bundle_id(BUNDLE.header_bytes)
DRAFT: Final = wire.AnnouncementDraft(
    instance=bytes(range(16)),
    bundle_id=BUNDLE_ID,
    size=wire.bundle_size(BUNDLE),
    groups=(
        wire.AnnouncedGroup("base_conversion", "easy", 1, 2),
        wire.AnnouncedGroup("fraction_simplification", "paper", 0, 3),
    ),
    policy_version=POLICY.version,
    created=CREATED,
    expires=CREATED + 300_000,
    holders=("/ip4/192.0.2.1/tcp/4001",),
)
ANNOUNCEMENT: Final = wire.seal_announcement(PRIVATE_KEY, SWARM_ID, DRAFT)
