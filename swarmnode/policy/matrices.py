"""The matrices of a decoder: how one is read from a module, and how it is applied.

Training applies a model's own parameters in place, so that no copy of a weight is made and low-rank
adapters (LoRA, arXiv 2106.09685, section 4.1) cost no gradient of the full matrix. Sampling gathers
copies once a call: adapters merged, neighbours joined into one product, laid out for the processor.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swarmnode.policy.names import UnusableModel

Linear = Callable[[Tensor], Tensor]
"""(..., inputs) to (..., outputs)."""

_PACK_FROM = 2**18
"""Entries of a matrix from which a packed layout gains more than its call costs."""


class UnsupportedModel(UnusableModel):
    """What was asked for does not cover this model; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class LowRank:
    """An adapter: scale x up x down is added to the matrix."""

    down: Tensor
    """A, (rank, inputs)."""
    up: Tensor
    """B, (outputs, rank)."""
    scale: float


@dataclass(frozen=True, slots=True)
class Matrix:
    """An affine map with the model's own parameters."""

    weight: Tensor
    """(outputs, inputs)"""
    bias: Tensor | None = None
    """(outputs,)"""
    low_rank: LowRank | None = None

    def __call__(self, inputs: Tensor, wide: Tensor | None = None) -> Tensor:
        """Apply it; gradients reach whichever parameters want them.

        wide: the inputs in the adapter's type, where the caller has them already.
        """
        outputs = F.linear(inputs, self.weight, self.bias)
        if self.low_rank is None:
            return outputs
        adapter = self.low_rank
        given = inputs.to(adapter.down.dtype) if wide is None else wide
        reduced = F.linear(given, adapter.down) * adapter.scale
        # In place: blocks that live for a moment between those that are kept leave gaps in memory.
        return outputs.add_(F.linear(reduced, adapter.up).to(outputs.dtype))

    def merged(self) -> Matrix:
        """Return the same map without an adapter."""
        if self.low_rank is None:
            return self
        adapter = self.low_rank
        added = (adapter.up.float() @ adapter.down.float()) * adapter.scale
        weight = (self.weight.float() + added).to(self.weight.dtype)
        return replace(self, weight=weight, low_rank=None)


def read_matrix(module: nn.Module) -> Matrix:
    """Read a linear module, plain or with one enabled LoRA adapter in peft's layout.

    Raises UnsupportedModel for anything else.
    """
    adapted = cast("Any", module)
    if hasattr(module, "base_layer"):
        return replace(read_matrix(adapted.base_layer), low_rank=_peft_adapter(adapted))
    if type(module) is not nn.Linear:
        raise UnsupportedModel(f"a layer of the kind {type(module).__name__}")
    return Matrix(module.weight, module.bias)


def beside(parts: Sequence[Matrix]) -> Linear:
    """Apply several matrices to the same input, each by itself; outputs side by side."""
    if len(parts) == 1:
        return parts[0]

    adapters = [part.low_rank for part in parts if part.low_rank is not None]

    def apply(inputs: Tensor) -> Tensor:
        # One copy for all: where adapters are wider than the weights, each would keep its own.
        wide = inputs.to(adapters[0].down.dtype) if adapters else None
        return torch.cat([part(inputs, wide) for part in parts], -1)

    return apply


def joined(parts: Sequence[Matrix], input_scales: Tensor | None, dtype: torch.dtype) -> Linear:
    """Apply several matrices to the same input as one product, from copies without gradient.

    input_scales: (inputs,), what the input would have been multiplied by. dtype: what to compute in
    (under autocast another than the weights'); the outputs are of that type.
    """
    plain = [part.merged() for part in parts]
    weight = plain[0].weight if len(plain) == 1 else torch.cat([part.weight for part in plain])
    if input_scales is not None:
        weight = weight * input_scales
    weight, bias = weight.to(dtype), _joined_bias(plain, dtype)
    if not _can_pack(weight):
        return Matrix(weight, bias)
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
    apply = torch.ops.mkldnn._linear_pointwise

    def apply_packed(inputs: Tensor) -> Tensor:
        outputs: Tensor = apply(inputs.to(dtype), packed, bias, "none", [], "")
        return outputs

    return apply_packed


def _joined_bias(parts: Sequence[Matrix], dtype: torch.dtype) -> Tensor | None:
    if all(part.bias is None for part in parts):
        return None
    biases = [
        part.weight.new_zeros(part.weight.shape[0]) if part.bias is None else part.bias
        for part in parts
    ]
    return torch.cat(biases).detach().to(dtype)


def _can_pack(weight: Tensor) -> bool:
    """Whether oneDNN can keep the weight in blocks; measured 1.1 to 1.7 times faster at 64 rows."""
    return (
        weight.device.type == "cpu"
        and (weight.dtype == torch.float32 or _packs_half(weight.dtype))
        and weight.numel() >= _PACK_FROM
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]  # torch leaves it so
        and platform.machine() in ("x86_64", "AMD64")
        # torch calls them private: a build without them uses ordinary products.
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )


def _packs_half(dtype: torch.dtype) -> bool:
    # Without AVX-512, as in most laptops, oneDNN refuses to pack what torch itself can multiply.
    supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", bool)
    return dtype == torch.bfloat16 and bool(supported())


def _peft_adapter(module: Any) -> LowRank | None:
    if module.disable_adapters or module.merged:
        return None
    active = [name for name in module.active_adapters if name in module.lora_A]
    if not active:
        return None
    if len(active) > 1:
        raise UnsupportedModel("several LoRA adapters at once")
    name = active[0]
    plain = (
        name not in module.lora_variant
        and not module.lora_bias[name]
        and isinstance(module.lora_dropout[name], nn.Identity)
    )
    if not plain:
        raise UnsupportedModel("a LoRA adapter with dropout, a bias or a variant such as DoRA")
    return LowRank(
        module.lora_A[name].weight, module.lora_B[name].weight, float(module.scaling[name])
    )
