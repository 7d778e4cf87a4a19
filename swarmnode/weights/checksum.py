"""XXH3-64 over tensors: finds damage and mix-ups, keeps out nobody who means harm.

(https://github.com/Cyan4973/xxHash; the project's own process writes and reads, on channels that
belong to its user.)
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import xxhash
from torch import Tensor

from swarmnode.weights.channel import Tensors
from swarmnode.weights.plan import Plan, as_bytes


class Checksum:
    """The sum over pieces in the order in which they are given, and the time that it took."""

    def __init__(self) -> None:
        self._state = xxhash.xxh3_64()
        self.seconds = 0.0

    def add(self, piece: Tensor) -> None:
        """Go on over the bytes of a tensor; one on an accelerator is copied to memory for it."""
        started = time.perf_counter()
        self._state.update(as_bytes(piece).cpu().numpy().data)
        self.seconds += time.perf_counter() - started

    def add_text(self, text: str) -> None:
        """Go on over a text."""
        self._state.update(text.encode())

    @property
    def digits(self) -> str:
        """The sum of what was given so far, 16 hex digits."""
        return self._state.hexdigest()


def checksum(pieces: Iterable[Tensor]) -> str:
    """Return the sum over tensors, 16 hex digits."""
    whole = Checksum()
    for piece in pieces:
        whole.add(piece)
    return whole.digits


def fingerprint(tensors: Tensors) -> str:
    """Return what tells these tensors from any others: names, types, shapes and values count, the
    order doesn't. 16 hex digits."""
    whole = Checksum()
    for name in sorted(tensors):
        (entry,) = Plan.of({name: tensors[name]}).entries
        whole.add_text(f"{entry}\n")
        whole.add(tensors[name])
    return whole.digits
