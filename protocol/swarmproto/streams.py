"""Hashes over framed parts: question streams, fingerprints, the held-out rule.

Knows no record and no question generator. Invariant: every hash and signature of the protocol is
over `framed` bytes that begin with a domain, so no two purposes share an input and no two lists
of parts share an encoding. Source: protocol/README.md, sections 1, 7 and 8.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from swarmproto.limits import (
    FINGERPRINT_PAIRS,
    HELD_OUT_MODULUS,
    PUBLIC_KEY_BYTES,
    SWARM_ID_BYTES,
)

STREAM_DOMAIN: Final = b"swarmnode/1/question-stream"
FINGERPRINT_DOMAIN: Final = b"swarmnode/1/fingerprint"
HELD_OUT_DOMAIN: Final = b"swarmnode/1/held-out"


def framed(*parts: bytes) -> bytes:
    """Each part behind its length as four big-endian bytes."""
    pieces: list[bytes] = []
    for part in parts:
        pieces += (len(part).to_bytes(4, "big"), part)
    return b"".join(pieces)


def stream_seed(swarm_id: bytes, public_key: bytes, task: str, level: str) -> int:
    """The seed, below 2**63, of the questions that this key is asked at this level.

    Raises ValueError unless `swarm_id` and `public_key` are 32 bytes each.
    """
    if len(swarm_id) != SWARM_ID_BYTES or len(public_key) != PUBLIC_KEY_BYTES:
        raise ValueError("a swarm id and a public key have 32 bytes each")
    parts = framed(STREAM_DOMAIN, swarm_id, public_key, task.encode(), level.encode())
    return int.from_bytes(hashlib.sha256(parts).digest()[:8], "big") >> 1


def reference_seed(task: str, level: str) -> int:
    """The seed of the stream that fingerprints are taken of: an id and a key of zeros.

    Zeros are a key of small order, which no peer may have.
    """
    return stream_seed(bytes(SWARM_ID_BYTES), bytes(PUBLIC_KEY_BYTES), task, level)


def fingerprint(task: str, level: str, pairs: Sequence[tuple[str, str]]) -> bytes:
    """32 bytes that are equal where a level asks and answers alike.

    `pairs` are question and answer at indices 0 to 15 of the reference stream, held-out ones
    included, two empty texts where the level has no question. Raises ValueError for another number
    of pairs.
    """
    if len(pairs) != FINGERPRINT_PAIRS:
        raise ValueError(f"a fingerprint is taken over {FINGERPRINT_PAIRS} pairs")
    parts = [FINGERPRINT_DOMAIN, task.encode(), level.encode()]
    for question, answer in pairs:
        parts += (question.encode(), answer.encode())
    return hashlib.sha256(framed(*parts)).digest()


def is_held_out(task: str, level: str, text: str) -> bool:
    """Whether the question with this text is kept for evaluation: one in ten is."""
    parts = framed(HELD_OUT_DOMAIN, task.encode(), level.encode(), text.encode())
    return int.from_bytes(hashlib.sha256(parts).digest(), "big") % HELD_OUT_MODULUS == 0
