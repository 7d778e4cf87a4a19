"""Weights as the bytes of a file: safetensors' own layout, so that any program can read it.

8 bytes with the header's length (little-endian), the header (JSON, padded with spaces), then the
tensors, one after another without gaps (https://github.com/huggingface/safetensors, "Format").
The header's length follows from the plan alone: it can be written again once the checksum of what
comes after it is known. Pure: opens no file.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from swarmnode.weights.channel import WeightsDamaged
from swarmnode.weights.plan import KINDS, Entry, Plan

LENGTH_BYTES = 8
_ALIGNED_BYTES = 64
"""The tensors begin at a multiple of it, a cache's line, which copies them faster."""
_LONGEST_HEADER_BYTES = 1 << 26
_UNKNOWN = "0" * 16


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which weights they are."""

    version: int
    checksum: str = _UNKNOWN
    """16 hex digits."""
    life: str = _UNKNOWN
    """Random for each writer, 16 hex digits: tells two of them with the same version apart."""


def encoded(plan: Plan, stamp: Stamp) -> bytes:
    """Return everything that comes before the tensors."""
    texts = {name: str(value) for name, value in asdict(stamp).items()}
    texts["version"] = f"{stamp.version:020d}"
    header: dict[str, Any] = {"__metadata__": {"format": "pt", "base": plan.base, **texts}}
    start = 0
    for entry in plan.entries:
        offsets = [start, start + entry.bytes]
        header[entry.name] = {"dtype": entry.kind, "shape": entry.shape, "data_offsets": offsets}
        start += entry.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(LENGTH_BYTES + len(text)) % _ALIGNED_BYTES)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def header_bytes(start: bytes, file_bytes: int) -> int:
    """Return the header's length, the length's own bytes left out, from the first 8 bytes.

    WeightsDamaged where no file of that size has it.
    """
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if len(start) < LENGTH_BYTES or length > min(_LONGEST_HEADER_BYTES, file_bytes - LENGTH_BYTES):
        raise WeightsDamaged("the weights are damaged: they have no header")
    return length


def decoded(header: bytes) -> tuple[Plan, Stamp]:
    """Read what `encoded` wrote, without the length. WeightsDamaged where it is something else."""
    try:
        content = json.loads(header)
        texts = content.pop("__metadata__")
        stamp = Stamp(int(texts["version"]), texts["checksum"], texts["life"])
        entries, end = [], 0
        for name, found in content.items():
            entry = Entry(name, found["dtype"], tuple(map(int, found["shape"])))
            first, last = found["data_offsets"]
            sound = entry.kind in KINDS and min((0, *entry.shape)) == 0 and first == end
            if not sound or last != first + entry.bytes:
                raise ValueError(name)
            entries.append(entry)
            end = last
        return Plan(tuple(entries), texts["base"]), stamp
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WeightsDamaged("the weights are damaged: their header can't be read") from error
