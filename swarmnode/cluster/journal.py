"""What a host was asked and what it answered, on disk, so that another one can be made like it.

A policy host gives the same answers to the same requests: asked again in the same order, another
process comes to the same state. The digests of the answers tell whether it did.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import xxhash

_ENTRY = struct.Struct(">Q8s")


class Journal:
    """Requests in the order in which they were answered. The owner must `close` it."""

    def __init__(self, folder: Path) -> None:
        """Keep it in a file of the folder that has no name there."""
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by the owner
        self.requests = 0

    def add(self, request: bytes, answer: bytes) -> None:
        """A request was answered. Raises OSError."""
        self._file.seek(0, 2)
        self._file.write(_ENTRY.pack(len(request), digest_of(answer)) + request)
        self.requests += 1

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        """Each request with the digest of its answer; nothing may be added meanwhile."""
        self._file.seek(0)
        while head := self._file.read(_ENTRY.size):
            length, digest = _ENTRY.unpack(head)
            yield self._file.read(length), digest

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def digest_of(answer: bytes) -> bytes:
    """Eight bytes that are the same for the same answer."""
    return xxhash.xxh3_64_digest(answer)
