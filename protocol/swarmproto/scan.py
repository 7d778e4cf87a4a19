"""Limited unpacking: msgpack bytes are walked once, within limits, before msgpack sees them.

Knows msgpack's byte format and the limits, no record. Invariants: the walk keeps no more than
the keys of the maps that are open; nothing is unpacked that broke a rule, so that decoding never
allocates more than 8 x input + 1 MiB. Source: protocol/README.md, section 3, and
github.com/msgpack/msgpack/blob/master/spec.md.
"""

import math
import struct
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

import msgpack

from swarmproto.errors import Reason, WireError
from swarmproto.limits import MessageLimits


class _Kind(Enum):
    SCALAR = auto()
    FLOAT = auto()
    TEXT = auto()
    BINARY = auto()
    ARRAY = auto()
    MAP = auto()
    EXTENSION = auto()
    RESERVED = auto()


class _Tag(NamedTuple):
    """`width` bytes of length follow the tag; with none, `inline` is the length itself."""

    kind: _Kind
    inline: int
    width: int


@dataclass(slots=True)
class _Frame:
    """An open container; `keys` is None for arrays, and a map's next item is a key when even."""

    remaining: int
    keys: set[bytes] | None


def _tag(byte: int) -> _Tag:
    if byte <= 0x7F or byte >= 0xE0:
        return _Tag(_Kind.SCALAR, 0, 0)
    if byte <= 0x8F:
        return _Tag(_Kind.MAP, byte & 0x0F, 0)
    if byte <= 0x9F:
        return _Tag(_Kind.ARRAY, byte & 0x0F, 0)
    if byte <= 0xBF:
        return _Tag(_Kind.TEXT, byte & 0x1F, 0)
    return _WIDE_TAGS[byte]


_WIDE_TAGS: Final[dict[int, _Tag]] = {
    0xC0: _Tag(_Kind.SCALAR, 0, 0),
    0xC1: _Tag(_Kind.RESERVED, 0, 0),
    0xC2: _Tag(_Kind.SCALAR, 0, 0),
    0xC3: _Tag(_Kind.SCALAR, 0, 0),
    0xC4: _Tag(_Kind.BINARY, 0, 1),
    0xC5: _Tag(_Kind.BINARY, 0, 2),
    0xC6: _Tag(_Kind.BINARY, 0, 4),
    0xC7: _Tag(_Kind.EXTENSION, 0, 0),
    0xC8: _Tag(_Kind.EXTENSION, 0, 0),
    0xC9: _Tag(_Kind.EXTENSION, 0, 0),
    0xCA: _Tag(_Kind.FLOAT, 4, 0),
    0xCB: _Tag(_Kind.FLOAT, 8, 0),
    0xCC: _Tag(_Kind.SCALAR, 1, 0),
    0xCD: _Tag(_Kind.SCALAR, 2, 0),
    0xCE: _Tag(_Kind.SCALAR, 4, 0),
    0xCF: _Tag(_Kind.SCALAR, 8, 0),
    0xD0: _Tag(_Kind.SCALAR, 1, 0),
    0xD1: _Tag(_Kind.SCALAR, 2, 0),
    0xD2: _Tag(_Kind.SCALAR, 4, 0),
    0xD3: _Tag(_Kind.SCALAR, 8, 0),
    **{byte: _Tag(_Kind.EXTENSION, 0, 0) for byte in range(0xD4, 0xD9)},
    0xD9: _Tag(_Kind.TEXT, 0, 1),
    0xDA: _Tag(_Kind.TEXT, 0, 2),
    0xDB: _Tag(_Kind.TEXT, 0, 4),
    0xDC: _Tag(_Kind.ARRAY, 0, 2),
    0xDD: _Tag(_Kind.ARRAY, 0, 4),
    0xDE: _Tag(_Kind.MAP, 0, 2),
    0xDF: _Tag(_Kind.MAP, 0, 4),
}
_TAGS: Final = tuple(_tag(byte) for byte in range(256))


def _need(data: bytes, end: int) -> None:
    if end > len(data):
        raise WireError(Reason.TRUNCATED, "the bytes end inside a value")


def _read_head(data: bytes, position: int) -> tuple[_Kind, int, int]:
    """Kind, length (items of a container, else payload bytes) and where the payload starts."""
    if position >= len(data):
        raise WireError(Reason.TRUNCATED, "the bytes end where a value is due")
    kind, inline, width = _TAGS[data[position]]
    position += 1
    if kind is _Kind.RESERVED:
        raise WireError(Reason.MALFORMED, "the reserved byte c1")
    if kind is _Kind.EXTENSION:
        raise WireError(Reason.EXTENSION, "an extension type")
    if not width:
        return kind, inline, position
    _need(data, position + width)
    length = int.from_bytes(data[position : position + width], "big")
    return kind, length, position + width


def _check_key(frame: _Frame, kind: _Kind, payload: bytes) -> None:
    if kind is not _Kind.TEXT or frame.keys is None:
        raise WireError(Reason.KEY_TYPE, "a map key that is not a text")
    if payload in frame.keys:
        raise WireError(Reason.DUPLICATE_KEY, "a map key occurs twice")
    frame.keys.add(payload)


def _check_finite(payload: bytes) -> None:
    (value,) = struct.unpack(">f" if len(payload) == 4 else ">d", payload)
    if not math.isfinite(value):
        raise WireError(Reason.NONFINITE, "a float that is not finite")


def scan(data: bytes, limits: MessageLimits) -> None:
    """Checks one msgpack value against everything but text encoding and schema.

    Left to right, the first fault wins. Raises WireError.
    """
    if len(data) > limits.size:
        raise WireError(Reason.OVERSIZE, f"more than {limits.size} bytes")
    position, nodes = 0, 1
    frames = [_Frame(1, None)]
    while frames:
        frame = frames[-1]
        if frame.remaining == 0:
            frames.pop()
            continue
        frame.remaining -= 1
        kind, length, position = _read_head(data, position)
        is_key = frame.keys is not None and frame.remaining % 2 == 1
        if kind is _Kind.ARRAY or kind is _Kind.MAP:
            if is_key:
                _check_key(frame, kind, b"")
            if len(frames) > limits.depth:
                raise WireError(Reason.DEPTH, f"deeper than {limits.depth}")
            items = length if kind is _Kind.ARRAY else 2 * length
            nodes += items
            if nodes > limits.nodes:
                raise WireError(Reason.NODES, f"more than {limits.nodes} values")
            frames.append(_Frame(items, set() if kind is _Kind.MAP else None))
            continue
        _need(data, position + length)
        payload = data[position : position + length]
        position += length
        if is_key:
            _check_key(frame, kind, payload)
        if kind is _Kind.FLOAT:
            _check_finite(payload)
    if position != len(data):
        raise WireError(Reason.TRAILING, "bytes after the value")


def unpack(data: bytes, limits: MessageLimits) -> object:
    """Scans, then unpacks; raises WireError."""
    scan(data, limits)
    try:
        value: object = msgpack.unpackb(data, raw=False, strict_map_key=True, use_list=True)
    except UnicodeDecodeError:
        raise WireError(Reason.UTF8, "a text that is not UTF-8") from None
    return value


def pack(value: object) -> bytes:
    """The shortest msgpack encoding; raises WireError for what has none."""
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True)
    except UnicodeEncodeError:
        raise WireError(Reason.UTF8, "a text with a lone surrogate") from None
    except OverflowError:
        raise WireError(Reason.RANGE, "an integer beyond 64 bits") from None
    except (TypeError, ValueError):
        raise WireError(Reason.WRONG_TYPE, "a value that has no encoding") from None
    return packed
