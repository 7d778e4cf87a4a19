"""How a vector is written down: inputs, expectations, records as JSON.

An input is a list of [hex, repetitions] to be joined, so that bombs stay short in the file.
In records, bytes are hex strings; fields have the names of the specification's records.
"""

import dataclasses
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Parts = Sequence[tuple[bytes, int]]
Vector = dict[str, Any]


def plain(value: object) -> object:
    """A record as JSON."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    return value


def parts_of(data: bytes | Parts) -> list[list[object]]:
    """The written form of an input."""
    parts = ((data, 1),) if isinstance(data, bytes) else data
    return [[piece.hex(), count] for piece, count in parts]


def accepted(name: str, operation: str, data: bytes | Parts, record: object) -> Vector:
    """A vector that decodes to this record."""
    return {
        "name": name,
        "operation": operation,
        "input": parts_of(data),
        "record": plain(record),
    }


def refused(name: str, operation: str, data: bytes | Parts, reason: str) -> Vector:
    """A vector that is refused for this reason."""
    return {"name": name, "operation": operation, "input": parts_of(data), "reason": reason}


def packed(value: object) -> bytes:
    """msgpack without any of our checks; lone surrogates pass."""
    data: bytes = msgpack.packb(value, use_bin_type=True, unicode_errors="surrogatepass")
    return data


def packed_map(pairs: Sequence[tuple[object, object]]) -> bytes:
    """A map whose keys may repeat or be of any type."""
    head = bytes([0x80 | len(pairs)]) if len(pairs) < 16 else struct.pack(">BH", 0xDE, len(pairs))
    return head + b"".join(_raw(key) + _raw(value) for key, value in pairs)


@dataclasses.dataclass(frozen=True)
class Raw:
    """Bytes that stand in a map as they are."""

    data: bytes


def _raw(value: object) -> bytes:
    return value.data if isinstance(value, Raw) else packed(value)


def without(values: Mapping[str, object], key: str) -> dict[str, object]:
    """A map less one key."""
    return {name: value for name, value in values.items() if name != key}


def framed(*parts: bytes) -> bytes:
    """Written here once more, so that vectors don't lean on the codec for what is signed."""
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def envelope(
    magic: bytes, domain: bytes, private_key: bytes, swarm_id: bytes, body: bytes
) -> bytes:
    """A rightly signed envelope around any body."""
    signer = Ed25519PrivateKey.from_private_bytes(private_key)
    prefix = magic + b"\x01" + swarm_id + signer.public_key().public_bytes_raw()
    return prefix + signer.sign(framed(domain, prefix, body)) + body
