"""Tensors as a stream of parts: packed on one side, unpacked on the other, never all at once.

A part is a buffer's worth of the plan's bytes, cut without gaps: a tensor that is larger than a
buffer goes in pieces, small ones go together. Tensors of at least `direct` bytes may be parts of
their own instead, sent from where they lie and received where they belong, which spares a copy on
either side; 0 is for none. Pure but for the memory that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from swarmnode.weights.channel import Tensors
from swarmnode.weights.copying import put
from swarmnode.weights.plan import Entry, Plan, as_bytes

_PARTS = 8
_LEAST_BYTES = 1 << 20


def buffer_bytes(plan: Plan, limit: int) -> int:
    """Return the size of a buffer: the limit, or less where the stream would be cut into fewer than
    8, so that packing, sending and unpacking still overlap."""
    return min(limit, max(_LEAST_BYTES, -(-plan.bytes // _PARTS)))


def two_buffers(size: int, device: torch.device) -> list[Tensor]:
    """Make what a stream takes turns with, each (size,) of uint8."""
    return [torch.empty(size, dtype=torch.uint8, device=device) for _ in range(2)]


@dataclass(frozen=True, slots=True)
class Span:
    """Some of a tensor's bytes, within a part."""

    entry: Entry
    start: int
    stop: int

    @property
    def bytes(self) -> int:
        """How many they are."""
        return self.stop - self.start


def parts(plan: Plan, size: int, direct: int) -> Iterator[list[Span]]:
    """Yield what each part of the stream carries, for buffers of `size` bytes."""
    part: list[Span] = []
    used = 0
    for entry in plan.entries:
        if is_direct(entry, direct):
            yield [Span(entry, 0, entry.bytes)]
            continue
        start = 0
        while start < entry.bytes:
            count = min(entry.bytes - start, size - used)
            part.append(Span(entry, start, start + count))
            start, used = start + count, used + count
            if used == size:
                yield part
                part, used = [], 0
    if part:
        yield part


def is_direct(entry: Entry, direct: int) -> bool:
    """Whether a tensor is a part of its own."""
    return 0 < direct <= entry.bytes


@torch.no_grad()
def packed(
    plan: Plan, tensors: Iterable[tuple[str, Tensor]], buffers: Sequence[Tensor], direct: int
) -> Iterator[Tensor]:
    """Yield the bytes of each part: a buffer, (size,) of uint8, as far as it is filled, or a
    tensor's own memory.

    The next part is made when it is asked for: by then whatever is done with any part but the last
    must be over. Holds one tensor at a time, and none while the next is made; whoever is given a
    tensor's own memory keeps it as long as need be. WeightsMismatch.
    """
    turn, used = 0, 0
    for entry, tensor in plan.matched(tensors):
        data = as_bytes(tensor).to(buffers[0].device)
        del tensor
        if is_direct(entry, direct):
            yield data
            del data
            continue
        start = 0
        while start < len(data):
            buffer = buffers[turn]
            count = min(len(data) - start, len(buffer) - used)
            buffer[used : used + count].copy_(data[start : start + count])
            start, used = start + count, used + count
            if used == len(buffer):
                yield buffer
                turn, used = (turn + 1) % len(buffers), 0
        del data  # before the next one is gathered
    if used:
        yield buffers[turn][:used]


class Landing:
    """Where the parts of a stream are received, and how they get to their places."""

    def __init__(self, into: Tensors, buffers: Sequence[Tensor], direct: int) -> None:
        self._into, self._buffers, self._direct = into, buffers, direct
        self._turn = 0

    def memory(self, part: Sequence[Span]) -> Tensor:
        """Return where to receive a part; it is unpacked before the next but one is received."""
        target = self._into[part[0].entry.name].detach()
        size = sum(span.bytes for span in part)
        if not is_direct(part[0].entry, self._direct):
            self._turn += 1
            return self._buffers[self._turn % len(self._buffers)][:size]
        if target.is_contiguous() and target.device == self._buffers[0].device:
            return as_bytes(target)
        return torch.empty(size, dtype=torch.uint8, device=self._buffers[0].device)

    def unpack(self, part: Sequence[Span], memory: Tensor) -> None:
        """Put what was received into its places."""
        target = self._into[part[0].entry.name]
        if memory.data_ptr() == target.data_ptr():
            return
        used = 0
        for span in part:
            piece = memory[used : used + span.bytes]
            put(self._into[span.entry.name], span.start, piece)
            used += span.bytes
