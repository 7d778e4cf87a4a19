"""Messages out of a stream in which each follows its length, as GossipSub's do. Pure.

py-libp2p reads such a length byte by byte, and yamux answers every read with a frame of its own:
for small messages that is most of their cost. The length is an unsigned varint: seven bits a byte,
the lowest first, the highest bit set in all but the last. Source: multiformats' unsigned-varint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

VARINT_BYTES_MAX: Final = 5


class Messages:
    """One stream's messages; `limit` is the longest, in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = bytearray()

    def whole(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole with this data, each once.

        Raises ValueError at a length that is none, or beyond the limit. No more than a message of
        the limit and the data are held.
        """
        self._held += data
        while (place := self._next()) is not None:
            start, end = place
            message = bytes(self._held[start:end])
            del self._held[:end]
            yield message

    def _next(self) -> tuple[int, int] | None:
        """Where the first message lies, None while it is not whole."""
        length = 0
        for index, byte in enumerate(self._held[:VARINT_BYTES_MAX]):
            length |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                if length > self._limit:
                    raise ValueError(f"a message of {length} bytes")
                end = index + 1 + length
                return (index + 1, end) if end <= len(self._held) else None
        if len(self._held) >= VARINT_BYTES_MAX:
            raise ValueError("a length without end")
        return None
