"""Numbers that must never be used twice: sequence numbers of a key, indices of question streams.

One small file with its own hash, apart from the database: it is rewritten whole, synced and renamed
before a number is given out, so that neither kill -9 nor a power cut nor a damaged database brings
a number back. A stream that the file doesn't know (a new or imported key, a lost file) starts at a
random index: what was used of it before is met again with a chance of about (indices used) / 2**30.
Sequence numbers need no such thing, since they follow the clock.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swarmnode.store.database import set_aside

_START_BELOW = 2**30
_UNSAVED_FROM = 2**31
_UNSAVED_BELOW = 2**32 - 2**24

Stream = tuple[bytes, bytes, str, str]
"""Public key, swarm id, task, level: what a question stream's seed is made of."""


@dataclass(frozen=True, slots=True)
class _Spent:
    """The next free number, by what it counts."""

    sequences: Mapping[str, int] = field(default_factory=dict)
    indices: Mapping[str, int] = field(default_factory=dict)


class ReservedNumbers:
    """The file of reserved numbers; for one thread of one process."""

    def __init__(self, path: Path, rng: random.Random, now: float) -> None:
        """`set_aside` says where a damaged file was put. Raises OSError."""
        self._path = path
        self._rng = rng
        self._unsaved: dict[str, int] = {}
        self.set_aside: Path | None = None
        try:
            self._spent = _read(path)
        except FileNotFoundError:
            self._spent = _Spent()
        except ValueError:
            self.set_aside = set_aside(path, now)
            self._spent = _Spent()

    def sequence(self, public_key: bytes, at_least: int, count: int) -> int:
        """The first of `count` sequence numbers, at least `at_least`. Raises OSError."""
        key = public_key.hex()
        first = max(at_least, self._spent.sequences.get(key, 0))
        self._save(_Spent({**self._spent.sequences, key: first + count}, self._spent.indices))
        return first

    def unsaved_sequence(self, public_key: bytes, at_least: int) -> int:
        """The same where nothing can be saved: after a restart the clock is past these numbers."""
        return max(at_least, self._spent.sequences.get(public_key.hex(), 0))

    def indices(self, stream: Stream, count: int) -> int:
        """The first of `count` indices of a stream. Raises OSError."""
        name = _name(stream)
        first = self._spent.indices.get(name)
        if first is None:
            first = self._rng.randrange(_START_BELOW)
        self._save(_Spent(self._spent.sequences, {**self._spent.indices, name: first + count}))
        return first

    def unsaved_indices(self, stream: Stream, count: int) -> int:
        """The same where nothing can be saved: from a random index in the upper half of the stream.

        Saved ones stay in the lower half for longer than anybody asks.
        """
        name = _name(stream)
        if name not in self._unsaved:
            self._unsaved[name] = self._rng.randrange(_UNSAVED_FROM, _UNSAVED_BELOW)
        first = self._unsaved[name]
        self._unsaved[name] = first + count
        return first

    def _save(self, spent: _Spent) -> None:
        body = json.dumps({"sequences": spent.sequences, "indices": spent.indices}, indent=1)
        temporary = self._path.with_name(f".{self._path.name}.new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{_digest(body)}\n{body}")
            file.flush()
            os.fsync(descriptor)
        temporary.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        self._spent = spent


def _name(stream: Stream) -> str:
    public_key, swarm_id, task, level = stream
    return f"{public_key.hex()}/{swarm_id.hex()}/{task}/{level}"


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _read(path: Path) -> _Spent:
    """Raises FileNotFoundError, OSError, and ValueError for anything that `_save` didn't write."""
    digest, _, body = path.read_text(encoding="utf-8").partition("\n")
    if digest != _digest(body):
        raise ValueError("the hash differs")
    return _Spent(**json.loads(body))
