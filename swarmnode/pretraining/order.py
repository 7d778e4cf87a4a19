"""Which sequence of a domain comes when, and how many of each domain a step has. Pure.

Both follow from a seed and a place alone: nothing has to be kept but how far a run has come, and
runs of one seed read the same texts of a domain in the same order whatever their scheduler does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

_ROUNDS = 4
"""Of the Feistel network; four make a permutation that looks random (Luby and Rackoff 1988)."""


def place(position: int, count: int, *key: int) -> int:
    """Where the `position`-th sequence is among `count`, at least 1: every one once in an epoch.

    `key` is what the order follows from. A permutation without a table, so that a domain may be as
    large as it likes.
    """
    epoch, inner = divmod(position, count)
    half = max(1, ((count - 1).bit_length() + 1) // 2)
    # The network permutes 4 ** half places; those beyond `count` are sent on until one is within.
    while True:
        inner = _permuted(inner, half, *key, epoch)
        if inner < count:
            return inner


def _permuted(value: int, half: int, *key: int) -> int:
    mask = (1 << half) - 1
    left, right = value >> half, value & mask
    for number in range(_ROUNDS):
        text = f"{key} {number} {right}".encode()
        mixed = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())
        left, right = right, left ^ (mixed & mask)
    return left << half | right


def counts(shares: Sequence[float], sequences: int, floor: int, *key: int) -> list[int]:
    """Sequences of each domain in a step: `floor` of each, the rest drawn by the shares.

    Equal keys draw with the same numbers whatever the shares are, which pairs the arms of a study.
    """
    drawn = sequences - floor * len(shares)
    ends = np.cumsum(shares)
    points = np.random.default_rng(key).random(drawn) * ends[-1]
    chosen = np.searchsorted(ends, points, side="right")
    found = np.bincount(np.minimum(chosen, len(shares) - 1), minlength=len(shares))
    return [floor + int(count) for count in found]


def drawn_by(shares: Sequence[float], sequences: int, floor: int) -> tuple[float, ...]:
    """The share of each domain in a step's sequences that `counts` has on average."""
    drawn = sequences - floor * len(shares)
    return tuple((floor + drawn * share) / sequences for share in shares)
