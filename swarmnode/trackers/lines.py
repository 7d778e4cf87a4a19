"""rounds.jsonl: a round's report a line, bounded, of its owner alone.

A round that was done again after a crash has two lines: the later one counts. The file is set aside
as rounds.jsonl.1 when it holds half of what is allowed, in place of what was there.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class RoundLines:
    """The two files; blocks, raises OSError."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes

    def write(self, reports: Sequence[Mapping[str, Any]]) -> None:
        """Add a line for each."""
        text = "".join(json.dumps(_valid(each), allow_nan=False) + "\n" for each in reports)
        data = text.encode()
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        self._make_room(len(data))
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        with open(os.open(self._path, flags, 0o600), "ab") as file:
            if self._torn(file.fileno()):
                data = b"\n" + data
            file.write(data)

    def _make_room(self, wanted: int) -> None:
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return
        if size and size + wanted > self._most_bytes // 2:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))

    @staticmethod
    def _torn(descriptor: int) -> bool:
        """Whether the last line was not written to its end."""
        size = os.fstat(descriptor).st_size
        return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _valid(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for both."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {key: _valid(each) for key, each in value.items()}
        case list() | tuple():
            return [_valid(each) for each in value]
    return value
