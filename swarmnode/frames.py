"""Frames on a socket: a four-byte big-endian length and a msgpack value.

Between processes of ours alone; what is in them is checked by those who use it.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable
from typing import Any

import msgpack

MAX_FRAME_BYTES = 64 * 1024 * 1024

_LENGTH = struct.Struct(">I")


def write_frame(connection: socket.socket, value: object) -> None:
    """Send one frame. Raises ValueError when it is larger than MAX_FRAME_BYTES."""
    write_body(connection, msgpack.packb(value))


def write_body(connection: socket.socket, body: bytes) -> None:
    """Send one frame whose value is packed already; raises as `write_frame` does."""
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(body)} bytes exceeds {MAX_FRAME_BYTES}")
    connection.sendall(_LENGTH.pack(len(body)) + body)


def read_frame(connection: socket.socket) -> Any:
    """Receive one frame. Raises EOFError when the other side has hung up or breaks the format."""
    return unpacked(read_body(connection))


def read_body(
    connection: socket.socket,
    limit: int = MAX_FRAME_BYTES,
    left: Callable[[], float] | None = None,
) -> bytes:
    """Receive one frame of at most `limit` bytes without unpacking it.

    `left` says how many seconds are left for it, and is asked again when they have passed. Raises
    EOFError, and TimeoutError where none are left, however the frame drips in.
    """
    (length,) = _LENGTH.unpack(_read_exactly(connection, _LENGTH.size, left))
    if length > limit:
        raise EOFError(f"a frame of {length} bytes exceeds {limit}")
    return _read_exactly(connection, length, left)


def unpacked(body: bytes) -> Any:
    """The value of a frame. Raises EOFError where it is no msgpack."""
    try:
        return msgpack.unpackb(body, strict_map_key=False)
    except (TypeError, ValueError) as error:
        raise EOFError(f"a frame that is no msgpack: {error}") from error


def _read_exactly(connection: socket.socket, count: int, left: Callable[[], float] | None) -> bytes:
    received = bytearray()
    while len(received) < count:
        if left is not None and not _readable(connection, left):
            raise TimeoutError
        chunk = connection.recv(min(count - len(received), 1 << 20))
        if not chunk:
            raise EOFError("the other side hung up")
        received += chunk
    return bytes(received)


def _readable(connection: socket.socket, left: Callable[[], float]) -> bool:
    """Whether something comes before the time is up."""
    while (seconds := left()) > 0:
        if select.select([connection], [], [], seconds)[0]:
            return True
    return False
