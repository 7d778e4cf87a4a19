"""Between tensors and the bytes of one after another. Knows no channel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from swarmnode.weights.channel import Tensors
from swarmnode.weights.plan import Plan, as_bytes


@torch.no_grad()
def fill(into: Tensors, plan: Plan, data: Tensor) -> None:
    """Copy the bytes of a plan's tensors, (plan.bytes,) of uint8, into their places."""
    for entry, piece in zip(plan.entries, split(data, plan), strict=True):
        put(into[entry.name], 0, piece)


def split(data: Tensor, plan: Plan) -> Sequence[Tensor]:
    """Return the bytes of each of a plan's tensors, out of those of all."""
    pieces: Sequence[Tensor] = data.split(plan.sizes)  # type: ignore[no-untyped-call]  # torch's
    return pieces


@torch.no_grad()
def put(target: Tensor, start: int, piece: Tensor) -> None:
    """Copy a piece of one tensor's bytes, `start` bytes after its first, into its place."""
    target = target.detach()
    if target.is_contiguous():
        as_bytes(target)[start : start + len(piece)].copy_(piece)
        return
    # Rows that lie apart: what the piece leaves as it is goes the way through memory too.
    rows = target.contiguous()
    as_bytes(rows)[start : start + len(piece)].copy_(piece)
    target.copy_(rows)
