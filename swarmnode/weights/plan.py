"""What both sides agree on before anything is sent: names, shapes and types, in one order.

The tensors of a plan are sent as the bytes of one after another, without gaps, row by row, as this
machine stores them. Pure: knows no channel.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from swarmnode.weights.channel import Tensors, WeightsMismatch

KINDS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""By the names that safetensors has for them."""
_NAMES = {kind: name for name, kind in KINDS.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a plan."""

    name: str
    kind: str
    """Its type, by safetensors' name for it."""
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """What it takes."""
        return math.prod(self.shape) * KINDS[self.kind].itemsize

    @property
    def dtype(self) -> torch.dtype:
        """Its type."""
        return KINDS[self.kind]

    def fits(self, tensor: Tensor) -> bool:
        """Whether a tensor is of this type and shape."""
        return tensor.dtype == self.dtype and tensor.shape == self.shape

    def __str__(self) -> str:
        return f"{self.name} ({self.kind} {list(self.shape)})"

    @staticmethod
    def of(name: str, tensor: Tensor) -> Entry:
        """Describe a tensor by its whole shape, be it spread over processes. WeightsMismatch where
        its type is none that is sent."""
        if tensor.dtype not in _NAMES:
            raise WeightsMismatch(f"{name} is of {tensor.dtype}, which is not sent")
        return Entry(name, _NAMES[tensor.dtype], tuple(tensor.shape))


@dataclass(frozen=True, slots=True)
class Plan:
    """The tensors that are sent, in order, and what they belong on."""

    entries: tuple[Entry, ...]
    base: str = ""
    """Fingerprint of the weights that are not sent because they never change, those below adapters;
    empty where everything is sent."""

    @staticmethod
    def of(tensors: Tensors, base: str = "") -> Plan:
        """Make the plan of these tensors, each of which has memory of its own. WeightsMismatch."""
        return Plan(tuple(Entry.of(name, tensor) for name, tensor in tensors.items()), base)

    @property
    def bytes(self) -> int:
        """What all take together."""
        return sum(self.sizes)

    @property
    def sizes(self) -> list[int]:
        """What each of them takes."""
        return [entry.bytes for entry in self.entries]

    def difference(self, theirs: Plan) -> str | None:
        """Say in one line what the first difference to another plan is; None where there is none.

        The order is the sender's affair: it makes no difference.
        """
        if self.base != theirs.base:
            return f"they belong on the base {theirs.base or 'none'}, ours is {self.base or 'none'}"
        ours = {entry.name: entry for entry in self.entries}
        for entry in theirs.entries:
            own = ours.pop(entry.name, None)
            if own is None:
                return f"{entry} has no place here"
            if own != entry:
                return f"{entry} was sent for {own}"
        return f"{next(iter(ours.values()))} is missing" if ours else None

    def require(self, tensors: Tensors, base: str) -> None:
        """Raise WeightsMismatch unless what this plan says is sent has its place in `tensors`."""
        fitting = sum(one.fits(tensors[one.name]) for one in self.entries if one.name in tensors)
        if base == self.base and fitting == len(self.entries) == len(tensors):
            return
        difference = Plan.of(tensors, base).difference(self)
        raise WeightsMismatch(
            f"the weights sent are not those of this model: {difference}; give the trainer and "
            "its generators the same policy settings"
        )

    def matched(self, tensors: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[Entry, Tensor]]:
        """Pass tensors on beside their entries; WeightsMismatch at the first that is another.

        Holds none of them while the next one is made.
        """
        left = iter(self.entries)
        source = iter(tensors)
        while (pair := next(source, None)) is not None:
            entry = next(left, None)
            if entry is None or entry.name != pair[0] or not entry.fits(pair[1]):
                found = Entry.of(*pair)
                raise WeightsMismatch(f"{found} is to be sent where the plan has {entry}")
            yield entry, pair[1]
            del pair
        if (entry := next(left, None)) is not None:
            raise WeightsMismatch(f"{entry} is in the plan and was not given")


def as_bytes(tensor: Tensor) -> Tensor:
    """Return a tensor's bytes, flat, on its device; its own memory if it is contiguous."""
    return tensor.detach().reshape(-1).view(torch.uint8)
