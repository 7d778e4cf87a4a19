"""Between tensors and the bytes of one after another. Knows no channel."""

from __future__ import annotations

import torch
from torch import Tensor

from swarmnode.weights.channel import Tensors
from swarmnode.weights.plan import Entry, Plan, as_bytes


@torch.no_grad()
def fill(into: Tensors, plan: Plan, data: Tensor) -> None:
    """Copy the bytes of a plan's tensors, (plan.bytes,) of uint8, into their places."""
    start = 0
    for entry in plan.entries:
        put(into[entry.name], entry, 0, data[start : start + entry.bytes])
        start += entry.bytes


@torch.no_grad()
def put(target: Tensor, entry: Entry, start: int, piece: Tensor) -> None:
    """Copy a piece of one tensor's bytes, `start` bytes after its first, into its place."""
    target = target.detach()
    if target.is_contiguous():
        as_bytes(target)[start : start + len(piece)].copy_(piece)
        return
    # Rows that lie apart: what the piece leaves as it is goes the way through memory too.
    rows = target.contiguous()
    as_bytes(rows)[start : start + len(piece)].copy_(piece)
    target.copy_(rows)
