"""Every limit of the wire, version 1, as a named constant.

Sizes are in bytes of the encoding, texts are measured in UTF-8 bytes, times are unix
milliseconds. Source: protocol/README.md, section 2. Invariant: changing one changes the protocol.
"""

from dataclasses import dataclass
from typing import Final

PROTOCOL_VERSION: Final = 1

SWARM_ID_BYTES: Final = 32
PUBLIC_KEY_BYTES: Final = 32
PRIVATE_KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64
HASH_BYTES: Final = 32
FINGERPRINT_BYTES: Final = 32
INSTANCE_BYTES: Final = 16
BUNDLE_ID_BYTES: Final = 32
SWARM_KEY_BYTES: Final = 32
SEAL_NONCE_BYTES: Final = 12
SEAL_BYTES: Final = SEAL_NONCE_BYTES + 16
"""What sealing adds: a nonce and a tag."""

GROUP_BYTES_MAX: Final = 256 * 1024
BUNDLE_BYTES_MAX: Final = 2 * 1024 * 1024
HEADER_BYTES_MAX: Final = 4 * 1024
ANNOUNCEMENT_BYTES_MAX: Final = 1024
PRIVATE_ANNOUNCEMENT_BYTES_MAX: Final = ANNOUNCEMENT_BYTES_MAX - SEAL_BYTES
"""Before it is sealed, in a private swarm."""
RULES_BYTES_MAX: Final = 16 * 1024
REQUEST_BYTES_MAX: Final = 1024
RESPONSE_BYTES_MAX: Final = BUNDLE_BYTES_MAX + 8 * 1024

GROUPS_PER_BUNDLE_MAX: Final = 64
COMPLETIONS_MIN: Final = 2
COMPLETIONS_MAX: Final = 64
QUESTION_BYTES_MAX: Final = 16 * 1024
ANSWER_BYTES_MAX: Final = 16 * 1024
COMPLETION_BYTES_MAX: Final = 16 * 1024
COMPLETION_TOKENS_MAX: Final = 16 * 1024
NAME_BYTES_MAX: Final = 64
POLICY_NAME_BYTES_MAX: Final = 128
HOLDERS_MAX: Final = 8
ADDRESS_BYTES_MAX: Final = 256
ANNOUNCED_TASKS_MAX: Final = 32
RULED_TASKS_MAX: Final = 128
BOOTSTRAP_ADDRESSES_MAX: Final = 32
ANNOUNCEMENTS_PER_RESPONSE_MAX: Final = 64

INDEX_MAX: Final = 2**32 - 1
"""Largest index into a question stream."""
COUNTER_MAX: Final = 2**53 - 1
"""Largest sequence number, policy version and time: exact as a double and in every SQL integer."""
ANNOUNCEMENT_LIFETIME_MS_MAX: Final = 600_000

FINGERPRINT_PAIRS: Final = 16
HELD_OUT_MODULUS: Final = 10
REPLAY_WINDOW_WIDTH: Final = 1024


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """What a scan of msgpack bytes tolerates before anything is unpacked.

    `nodes` counts every value and every map key, the outermost value included; `depth` counts
    nested arrays and maps, the outermost one being 1.
    """

    size: int
    nodes: int
    depth: int


GROUP_LIMITS: Final = MessageLimits(GROUP_BYTES_MAX, 4096, 6)
HEADER_LIMITS: Final = MessageLimits(HEADER_BYTES_MAX, 512, 6)
ANNOUNCEMENT_LIMITS: Final = MessageLimits(ANNOUNCEMENT_BYTES_MAX, 512, 6)
RULES_LIMITS: Final = MessageLimits(RULES_BYTES_MAX, 1024, 6)
REQUEST_LIMITS: Final = MessageLimits(REQUEST_BYTES_MAX, 512, 6)
RESPONSE_LIMITS: Final = MessageLimits(RESPONSE_BYTES_MAX, 512, 6)
