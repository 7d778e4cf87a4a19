"""What a forward pass keeps for the backward pass, measured, and what to do when it is too much.

Knows the model as a function of packed rows and nothing of losses. The measurement is of shapes
alone, so that it is the same after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, UntypedStorage
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
    # Storages are held until all is counted: freed memory would be counted once for two tensors.
    kept: dict[int, UntypedStorage] = {}

    def keep(tensor: Tensor) -> None:
        # To give back the tensor would make what a step saves of its own result hold that step: a
        # circle that nobody collects.
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage

    row = torch.zeros(1, length, dtype=torch.int64, device=device)
    places = torch.arange(length, device=device).unsqueeze(0)
    with saved_tensors_hooks(keep, _nothing_to_unpack):
        model.tree_hidden(row, places, row)
    parameters = {one.untyped_storage().data_ptr() for one in model.parameters()}
    return sum(storage.nbytes() for place, storage in kept.items() if place not in parameters)


def _nothing_to_unpack(kept: None) -> Tensor:
    raise RuntimeError("nothing is kept for a backward pass of a probe")
