"""A decoder's weights in the form that the native forward takes: in place, or gathered to sample.

In place they refer to the module's own parameters, which gradients reach; gathered, neighbouring
matrices are joined, adapters merged and norms folded into what follows them, once for many
forwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from swarmnode.policy.matrices import Linear, Matrix, beside, joined, read_matrix

Layer = Callable[[Tensor], Tensor]
"""Hidden states to hidden states, (rows, length, width)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the forward must know of a model besides its weights."""

    heads: int
    key_value_heads: int
    head_width: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer; a norm of None is folded into what follows."""

    attention_norm: Tensor | None
    query_key_value: Linear
    head_norms: Tensor | None
    """(heads + key_value_heads, head_width), of queries and keys; None where a family has none."""
    attention_output: Linear
    feed_forward_norm: Tensor | None
    gate_up: Linear
    down: Linear


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """All weights of a decoder, in the form that `forward` takes."""

    shape: Shape
    embedding: Tensor
    layers: Callable[[int], LayerWeights]
    """By its number; asked for within `around` alone."""
    final_norm: Tensor
    head: Linear
    partners_adjacent: bool
    """Whether the query and key matrices give rotary partners side by side."""
    around: Callable[[int, Layer, Tensor], Tensor]
    """How a layer is run: what gathers its weights, where they are spread over processes."""
    count: int
    """Of layers."""


def in_place(layer: Any, shape: Shape) -> LayerWeights:
    """Refer to a transformers layer's parameters; raises UnsupportedModel for other matrices."""
    attention, feed_forward = layer.self_attn, layer.mlp
    return LayerWeights(
        attention_norm=layer.input_layernorm.weight,
        query_key_value=beside(
            [
                read_matrix(attention.q_proj),
                read_matrix(attention.k_proj),
                read_matrix(attention.v_proj),
            ]
        ),
        head_norms=_head_norms(attention, shape),
        attention_output=read_matrix(attention.o_proj),
        feed_forward_norm=layer.post_attention_layernorm.weight,
        gate_up=beside([read_matrix(feed_forward.gate_proj), read_matrix(feed_forward.up_proj)]),
        down=read_matrix(feed_forward.down_proj),
    )


def gathered(layer: Any, shape: Shape, dtype: torch.dtype) -> LayerWeights:
    """A layer's weights as they are now, in `dtype`, with rotary partners side by side."""
    attention, feed_forward = layer.self_attn, layer.mlp
    attention_norm = layer.input_layernorm.weight
    feed_forward_norm = layer.post_attention_layernorm.weight
    # In half precision a folded norm would round every weight once more.
    folded = attention_norm.dtype == torch.float32
    query_key_value = [
        _partners_side_by_side(read_matrix(attention.q_proj), shape),
        _partners_side_by_side(read_matrix(attention.k_proj), shape),
        read_matrix(attention.v_proj),
    ]
    gate_up = [read_matrix(feed_forward.gate_proj), read_matrix(feed_forward.up_proj)]
    norms = _head_norms(attention, shape)
    return LayerWeights(
        attention_norm=None if folded else attention_norm,
        query_key_value=joined(query_key_value, attention_norm if folded else None, dtype),
        head_norms=None if norms is None else _interleaved(norms.T.contiguous(), shape).T,
        attention_output=joined([read_matrix(attention.o_proj)], None, dtype),
        feed_forward_norm=None if folded else feed_forward_norm,
        gate_up=joined(gate_up, feed_forward_norm if folded else None, dtype),
        down=joined([read_matrix(feed_forward.down_proj)], None, dtype),
    )


def _head_norms(attention: Any, shape: Shape) -> Tensor | None:
    if not hasattr(attention, "q_norm"):
        return None
    query = attention.q_norm.weight.expand(shape.heads, -1)
    return torch.cat([query, attention.k_norm.weight.expand(shape.key_value_heads, -1)])


def _partners_side_by_side(matrix: Matrix, shape: Shape) -> Matrix:
    matrix = matrix.merged()
    bias = None if matrix.bias is None else _interleaved(matrix.bias.unsqueeze(1), shape).squeeze(1)
    return Matrix(_interleaved(matrix.weight, shape), bias)


def _interleaved(columns: Tensor, shape: Shape) -> Tensor:
    """Order each head's rows so that rotary partners, half a head apart, become neighbours."""
    halves = columns.view(-1, 2, shape.head_width // 2, columns.shape[1])
    return halves.transpose(1, 2).reshape(columns.shape)
