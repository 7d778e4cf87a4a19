"""Tensors as a stream of buffers: packed on one side, unpacked on the other, never all at once.

The stream is the bytes of the plan's tensors without gaps, cut into buffers of one size (the last
may be shorter): a tensor that is larger than a buffer goes in pieces, small ones go together. Pure
but for the memory that it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from swarmnode.weights.channel import Tensors
from swarmnode.weights.copying import put
from swarmnode.weights.plan import Plan, as_bytes

_PARTS = 8
_LEAST_BYTES = 1 << 20


def buffer_bytes(plan: Plan, limit: int) -> int:
    """Return the size of a buffer: the limit, or less where the stream would be cut into fewer than
    8, so that packing, sending and unpacking still overlap."""
    return min(limit, max(_LEAST_BYTES, -(-plan.bytes // _PARTS)))


def piece_sizes(plan: Plan, size: int) -> list[int]:
    """Return how many bytes each buffer of the stream carries."""
    whole, rest = divmod(plan.bytes, size)
    return [size] * whole + ([rest] if rest else [])


@torch.no_grad()
def packed(
    plan: Plan, tensors: Iterable[tuple[str, Tensor]], buffers: Sequence[Tensor]
) -> Iterator[Tensor]:
    """Fill the buffers, (size,) of uint8, in turn; yield what is filled of each.

    The next is filled when it is asked for: by then whatever is done with the buffer whose turn it
    is must be over. Holds one tensor at a time, and none while the next is made. WeightsMismatch.
    """
    turn, used = 0, 0
    for _, tensor in plan.matched(tensors):
        data = as_bytes(tensor).to(buffers[0].device)
        del tensor
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


class Unpacking:
    """Where the stream has got to on its way into the tensors."""

    def __init__(self, plan: Plan, into: Tensors) -> None:
        self._entries, self._into = iter([one for one in plan.entries if one.bytes]), into
        self._entry = next(self._entries, None)
        self._done = 0
        """Bytes of the entry that are in their place."""

    def put(self, buffer: Tensor) -> None:
        """Put the next bytes of the stream in their places."""
        start = 0
        while start < len(buffer) and self._entry is not None:
            entry = self._entry
            piece = buffer[start : start + entry.bytes - self._done]
            put(self._into[entry.name], entry, self._done, piece)
            start, self._done = start + len(piece), self._done + len(piece)
            if self._done == entry.bytes:
                self._entry, self._done = next(self._entries, None), 0
