"""Tensors that are spread over processes (torch's DTensor) and whole ones. Knows no model."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


def whole(tensor: Tensor) -> Tensor:
    """A tensor in one piece, gathered where it is spread: then every process must ask for it."""
    gather = getattr(tensor, "full_tensor", None)
    return tensor if gather is None else gather()


def spread_like(tensor: Tensor, like: Tensor) -> Tensor:
    """A whole tensor, which every process has, spread as another one is."""
    placements = getattr(like, "placements", None)
    if placements is None:
        return tensor
    from torch.distributed.tensor import distribute_tensor

    mesh = like.device_mesh  # type: ignore[attr-defined]  # a DTensor's
    return distribute_tensor(tensor.to(like.device), mesh, placements, src_data_rank=None)


def collected(tensors: Mapping[str, Tensor], *, keep: bool) -> dict[str, Tensor]:
    """Tensors in one piece, those that were spread in memory; one after the other.

    keep: whether this process needs them; else it goes along, and has no more than their shapes.
    """
    found = {}
    for name, tensor in tensors.items():
        full = whole(tensor)
        if full is not tensor:
            full = full.cpu() if keep else torch.empty_like(full, device="meta")
        found[name] = full
    return found
