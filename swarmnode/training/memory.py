"""What a forward pass keeps for the backward pass, measured, and what to do when it is too much.

Knows the model as a function of packed rows and nothing of losses. The measurement is of shapes
alone, so that it is the same after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from swarmnode.training.groups import TrainableModel

PROBE_LENGTHS = (16, 32, 64)
"""Positions of the three rows that are measured: a constant, a linear and a quadratic part."""

_OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocator gave up: CUDA's and MPS's, or the CPU's, which says so only in words."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(
        words in str(error).lower() for words in _OUT_OF_MEMORY
    )


@dataclass(frozen=True, slots=True)
class ActivationCost:
    """Bytes that a micro-batch keeps between forward and backward pass, besides the head's."""

    constant: float
    per_position: float
    per_square: float
    """By positions of a row, squared: attention's mask, and its weights where they are kept."""

    def bytes(self, rows: int, length: int) -> float:
        """For `rows` rows of `length` positions."""
        return self.constant + rows * length * (self.per_position + self.per_square * length)


def measured_cost(model: TrainableModel, device: torch.device) -> ActivationCost:
    """Three probes of one row; no gradient is made and nothing is changed."""
    first, second, third = (_kept_bytes(model, length, device) for length in PROBE_LENGTHS)
    shorter, middle, longer = PROBE_LENGTHS
    low = (second - first) / (middle - shorter)
    high = (third - second) / (longer - middle)
    square = max(0.0, (high - low) / (longer - shorter))
    position = max(0.0, low - square * (shorter + middle))
    constant = max(0.0, first - position * shorter - square * shorter**2)
    return ActivationCost(constant, position, square)


def _kept_bytes(model: TrainableModel, length: int, device: torch.device) -> int:
    """Bytes of the distinct tensors that autograd keeps, the parameters themselves left out."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    row = torch.zeros(1, length, dtype=torch.int64, device=device)
    places = torch.arange(length, device=device).unsqueeze(0)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        # Held until all is counted: freed memory would be counted once for two tensors.
        hidden = model.tree_hidden(row, places, row)
    parameters = {one.untyped_storage().data_ptr() for one in model.parameters()}
    total = sum(size for place, size in kept.items() if place not in parameters)
    del hidden
    return total
