"""Reading GGUF files: the metadata, and tensors as float32 arrays.

Knows the container (version 3, little-endian) and the element types F32, Q4_1 and Q8_0 of
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and ggml-common.h, nothing of models.
Metadata is parsed in one pass over the bytes, which takes a tenth of a second where the `gguf`
package takes eight for a vocabulary of 49 000.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC = b"GGUF"
_VERSION = 3
_DEFAULT_ALIGNMENT = 32
_STRING, _ARRAY = 8, 9
_SCALARS = dict(enumerate("BbHhIif?")) | {10: "Q", 11: "q", 12: "d"}
"""By GGUF's number of a value's type, its form in `struct`."""
_BLOCK = 32
"""Elements that share a scale in Q4_1 and Q8_0."""

Array = NDArray[np.float32]


class GgufError(ValueError):
    """The file is no GGUF file that this reader knows; the text says why."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """Where a tensor lies."""

    shape: tuple[int, ...]
    """Outermost dimension first, as in numpy."""
    kind: int
    offset: int


class GgufFile:
    """An open file; a context manager."""

    def __init__(self, path: Path) -> None:
        """Read the metadata. Raises GgufError, and OSError when there is no such file."""
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self.metadata, self._stored = _parsed(self._bytes)
        except (struct.error, KeyError, UnicodeDecodeError) as error:
            raise GgufError(f"{path} is damaged, or no GGUF file of version {_VERSION}") from error

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bytes.close()

    def tensors(self) -> Iterator[tuple[str, Array]]:
        """Yield each tensor by name, its values computed in float32.

        Raises GgufError for an element type that this reader does not know.
        """
        for name, stored in self._stored.items():
            if stored.kind not in _KINDS:
                raise GgufError(f"{name} has elements of the type {stored.kind}, which is unknown")
            bytes_per_block, elements, decode = _KINDS[stored.kind]
            count = int(np.prod(stored.shape))
            end = stored.offset + count // elements * bytes_per_block
            # A copy, so that no view keeps the file mapped.
            raw = np.frombuffer(self._bytes[stored.offset : end], dtype=np.uint8)
            yield name, decode(raw.reshape(-1, bytes_per_block)).reshape(stored.shape)


def _f32(blocks: NDArray[np.uint8]) -> Array:
    return blocks.view("<f4").astype(np.float32)


def _q8_0(blocks: NDArray[np.uint8]) -> Array:
    """A float16 scale, then 32 signed bytes."""
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    return scale * blocks[:, 2:].view(np.int8).astype(np.float32)


def _q4_1(blocks: NDArray[np.uint8]) -> Array:
    """A float16 scale and minimum, then 16 bytes: the low halves come first, then the high ones."""
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    minimum = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    packed = blocks[:, 4:]
    levels = np.concatenate([packed & 0x0F, packed >> 4], axis=1).astype(np.float32)
    return scale * levels + minimum


_KINDS: dict[int, tuple[int, int, Callable[[NDArray[np.uint8]], Array]]] = {
    0: (4, 1, _f32),
    3: (4 + _BLOCK // 2, _BLOCK, _q4_1),
    8: (2 + _BLOCK, _BLOCK, _q8_0),
}
"""By ggml's number of the element type: bytes of a block, its elements, how it is read."""


def _parsed(data: mmap.mmap) -> tuple[dict[str, Any], dict[str, _Stored]]:
    cursor = _Cursor(data)
    if data[:4] != _MAGIC or cursor.scalar("I") != _VERSION:
        raise KeyError(_MAGIC)
    tensors, entries = cursor.scalar("Q"), cursor.scalar("Q")
    metadata = {}
    for _ in range(entries):
        name = cursor.text()
        metadata[name] = cursor.value(cursor.scalar("I"))
    infos = []
    for _ in range(tensors):
        name = cursor.text()
        dimensions = [cursor.scalar("Q") for _ in range(cursor.scalar("I"))]
        infos.append((name, tuple(reversed(dimensions)), cursor.scalar("I"), cursor.scalar("Q")))
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    start = -(-cursor.place // alignment) * alignment
    return metadata, {
        name: _Stored(shape, kind, start + offset) for name, shape, kind, offset in infos
    }


class _Cursor:
    """A place in the file that moves on as values are read."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.place = len(_MAGIC)

    def scalar(self, form: str) -> Any:
        form = f"<{form}"
        (value,) = struct.unpack_from(form, self._data, self.place)
        self.place += struct.calcsize(form)
        return value

    def text(self) -> str:
        length = self.scalar("Q")
        start, self.place = self.place, self.place + length
        if self.place > len(self._data):
            raise struct.error("the file ends within a text")
        return self._data[start : self.place].decode()

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            of, count = self.scalar("I"), self.scalar("Q")
            return [self.value(of) for _ in range(count)]
        return self.scalar(_SCALARS[kind])
