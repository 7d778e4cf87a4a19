"""What training and validation have in common, byte by byte. Pure, over arrays.

A window is WINDOW consecutive bytes. Its hash is a polynomial over a fixed random number for each
byte value, in 64 bits (Karp and Rabin 1987), for all windows of a text at once by doubling.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WINDOW = 64
"""Bytes; a power of two. Shorter repetitions are language, longer ones are copies."""

Hashes = NDArray[np.uint64]

_FACTOR = 0x9E3779B97F4A7C15
_OF_BYTE = np.random.default_rng(20261130).integers(0, 2**64, 256, dtype=np.uint64)


def windows(data: bytes) -> Hashes:
    """The hash of every window, in order: (len(data) - WINDOW + 1,), empty for less than one."""
    hashes: Hashes = _OF_BYTE[np.frombuffer(data, dtype=np.uint8)]
    if len(hashes) < WINDOW:
        return hashes[:0]
    width, factor = 1, _FACTOR
    while width < WINDOW:
        hashes = hashes[:-width] * np.uint64(factor) + hashes[width:]
        width, factor = 2 * width, factor * factor % 2**64
    return hashes


def sorted_set(parts: list[Hashes]) -> Hashes:
    """All hashes once, sorted."""
    if not parts:
        return np.empty(0, dtype=np.uint64)
    return np.unique(np.concatenate(parts))


def copied(data: bytes, known: Hashes) -> NDArray[np.bool_]:
    """By byte, whether it lies in a window that is known; `known` is of `sorted_set`."""
    marks = np.zeros(len(data), dtype=bool)
    hashes = windows(data)
    if not len(known) or not len(hashes):
        return marks
    places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
    starts = np.flatnonzero(known[places] == hashes)
    if len(starts):
        edges = np.zeros(len(data) + 1, dtype=np.int64)
        edges[starts] += 1
        np.subtract.at(edges, starts + WINDOW, 1)
        marks = np.cumsum(edges[:-1]) > 0
    return marks
