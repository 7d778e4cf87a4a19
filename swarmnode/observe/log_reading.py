"""Reading log files back: the last entries of all processes, and those that come after.

Knows the form of swarmnode.observe.log and nothing else. A line that does not parse, for instance
the last one before a power cut, is left out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from swarmnode.observe.log import LOG_SUFFIX

Entries = list[dict[str, Any]]


class LogReader:
    """The logs in a folder; the caller closes it."""

    def __init__(self, folder: Path, most_bytes: int | None = None) -> None:
        """Of each file so many bytes before its present end are read at most, if that is given."""
        self._folder = folder
        self._most_bytes = most_bytes
        self._open: dict[Path, _Tail] = {}

    def last(self, count: int) -> Entries:
        """The newest `count` entries, in the order of their times; what follows is `new`."""
        # The files that were set aside last: the present ones may have just begun.
        aside = sorted(self._folder.glob(f"*{LOG_SUFFIX}.1"))
        older = [entry for path in aside for entry in _parsed(path.read_bytes().splitlines())]
        entries = _in_order([*older, *self.new()])
        return entries[-count:] if count else []

    def new(self, most: int | None = None) -> Entries:
        """What was written since the last call; of each file the last `most` lines, if given.

        The others are not even parsed: a node that trains fast writes hundreds a second.
        """
        found: Entries = []
        for path in sorted(self._folder.glob(f"*{LOG_SUFFIX}")):
            if path not in self._open:
                self._open[path] = _Tail(path, self._most_bytes)
            found += self._open[path].new(most)
        return _in_order(found)

    def close(self) -> None:
        """Close all files."""
        for tail in self._open.values():
            tail.close()
        self._open.clear()


class _Tail:
    """One file from its beginning on, and the ones that take its place."""

    def __init__(self, path: Path, most_bytes: int | None) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb")
        if most_bytes is not None:
            # The line that this falls into does not parse, and is left out.
            self._file.seek(max(0, os.fstat(self._file.fileno()).st_size - most_bytes))
        self._partial = b""

    def new(self, most: int | None) -> Entries:
        found = self._rest(most)
        try:
            replaced = self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return found
        if replaced:
            # Once more: something may have been written before it was set aside.
            found += self._rest(most)
            self._file.close()
            self._file, self._partial = self._path.open("rb"), b""
            found += self._rest(most)
        return found

    def close(self) -> None:
        self._file.close()

    def _rest(self, most: int | None) -> Entries:
        *lines, self._partial = (self._partial + self._file.read()).split(b"\n")
        return _parsed(lines if most is None else lines[-most:])


def _parsed(lines: Sequence[bytes]) -> Entries:
    entries: Entries = []
    for line in lines:
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            entries.append(value)
    return entries


def _in_order(entries: Entries) -> Entries:
    return sorted(entries, key=lambda entry: str(entry.get("time", "")))
