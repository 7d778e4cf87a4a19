"""The native forward of Llama-family models, shared by prefill, decoding and training.

It reads the parameters of the transformers module itself, so that there is one set of weights and
their gradients land where optimizers look. How a token sees other tokens is passed in as `attend`.
A departure from transformers: the padding token's embedding gets its gradient where it is read.
Supported: RMSNorm, rotary positions of every static type, grouped key-value heads, SwiGLU. Models
with biases, query-key norms or sliding windows are refused.

Shapes: rows, length, heads, key_value_heads, head_width, width. Rotary pairs are kept interleaved
(a permutation of the query and key rows, which leaves their products unchanged) so that rotating
is one complex product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaForCausalLM

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""(layer, query, key, value) to the attended values. Query and result are (rows, length, heads,
head_width); key and value are (rows, length, key_value_heads, head_width). Queries are already
scaled."""


class UnsupportedModel(ValueError):
    """The native forward does not cover this architecture."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the forward must know of a model besides its weights."""

    heads: int
    key_value_heads: int
    head_width: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer's weights, (outputs, inputs) each; a norm of None is folded into what follows."""

    attention_norm: Tensor | None
    query_key_value: Tensor
    attention_output: Tensor
    feed_forward_norm: Tensor | None
    gate_up: Tensor
    down: Tensor


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    """All weights of a decoder, in the form that `forward` takes."""

    shape: Shape
    embedding: Tensor
    layers: Sequence[LayerWeights]
    final_norm: Tensor | None
    head: Tensor


class Decoder:
    """A Llama-family causal language model as the native forward sees it."""

    def __init__(self, module: nn.Module) -> None:
        """Take a transformers module; UnsupportedModel if its architecture is another."""
        if not isinstance(module, LlamaForCausalLM):
            raise UnsupportedModel(
                f"{type(module).__name__} has no native forward; Llama-family models have one"
            )
        config = module.config
        if config.attention_bias or config.mlp_bias or config.hidden_act != "silu":
            raise UnsupportedModel("Llama models with biases or another activation than silu")
        self.module = module
        self.shape = Shape(
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            head_width=config.head_dim,
            epsilon=config.rms_norm_eps,
        )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head_weight.device

    @property
    def head_weight(self) -> Tensor:
        """The output matrix, (vocabulary, width)."""
        return cast("Tensor", self.module.lm_head.weight)

    def weights(self, *, folded: bool) -> DecoderWeights:
        """Gather the weights; with gradients enabled, gradients reach the module's parameters.

        folded: multiply the norms' weights into the matrices that follow, which saves operations
        when one gathering serves many forwards (generation) and costs more than it saves in one.
        """
        body = self.module.model
        final_norm = body.norm.weight
        return DecoderWeights(
            shape=self.shape,
            embedding=body.embed_tokens.weight,
            layers=[_layer_weights(layer, self.shape, folded) for layer in body.layers],
            final_norm=None if folded else final_norm,
            head=self.head_weight * final_norm if folded else self.head_weight,
        )

    def rotations(self, positions: Tensor) -> Tensor:
        """Return the complex rotary factors of integer positions, (*positions, head_width / 2)."""
        rotary = self.module.model.rotary_emb
        angles = positions.unsqueeze(-1).float() * rotary.inv_freq
        scale = torch.full_like(angles, rotary.attention_scaling)
        return torch.polar(scale, angles)


def forward(
    weights: DecoderWeights, token_ids: Tensor, rotations: Tensor, attend: Attend
) -> Tensor:
    """Return the hidden states after the final norm, (rows, length, width).

    token_ids: (rows, length). rotations: complex, (rows, length, 1, head_width / 2).
    """
    epsilon = weights.shape.epsilon
    hidden = F.embedding(token_ids, weights.embedding)
    width = (hidden.shape[-1],)
    for index, layer in enumerate(weights.layers):
        normed = F.rms_norm(hidden, width, layer.attention_norm, epsilon)
        query, key, value = _heads(
            F.linear(normed, layer.query_key_value), weights.shape, rotations
        )
        attended = attend(index, query, key, value).flatten(-2)
        hidden = hidden + F.linear(attended, layer.attention_output)
        normed = F.rms_norm(hidden, width, layer.feed_forward_norm, epsilon)
        gate, up = F.linear(normed, layer.gate_up).chunk(2, -1)
        hidden = hidden + F.linear(F.silu(gate) * up, layer.down)
    return F.rms_norm(hidden, width, weights.final_norm, epsilon)


def causal_attention(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attend to the same and earlier places of the row; right padding is seen by padding only."""
    return _attention(query, key, value, None)


def masked_attention(visible: Tensor) -> Attend:
    """Return an `attend` under a mask, (rows, length, length) with True where query sees key."""
    mask = torch.zeros(visible.shape, device=visible.device)
    mask = mask.masked_fill_(~visible, float("-inf")).unsqueeze(1)

    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return _attention(query, key, value, mask)

    return attend


def tree_visibility(positions: Tensor, segments: Tensor) -> Tensor:
    """Return who sees whom in packed rows, (rows, length, length).

    positions and segments: (rows, length). Segment 0 is the prompt, k >= 1 the k-th completion, -1
    padding. A token sees the tokens at the same or an earlier position that belong to the prompt or
    to its own segment.
    """
    earlier = positions.unsqueeze(-2) <= positions.unsqueeze(-1)
    keys = segments.unsqueeze(-2)
    return earlier & ((keys == 0) | (keys == segments.unsqueeze(-1)))


def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(
        query.transpose(1, 2),
        key.transpose(1, 2),
        value.transpose(1, 2),
        attn_mask=mask,
        is_causal=mask is None,
        scale=1.0,
        enable_gqa=query.shape[2] != key.shape[2],
    ).transpose(1, 2)


def _heads(joined: Tensor, shape: Shape, rotations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split (rows, length, all heads x head_width) and rotate queries and keys."""
    rotated_heads = shape.heads + shape.key_value_heads
    rows, length, _ = joined.shape
    split = rotated_heads * shape.head_width
    pairs = joined[..., :split].view(rows, length, rotated_heads, shape.head_width // 2, 2)
    rotated = torch.view_as_real(torch.view_as_complex(pairs) * rotations).flatten(-2)
    value = joined[..., split:].view(rows, length, shape.key_value_heads, shape.head_width)
    return rotated[:, :, : shape.heads], rotated[:, :, shape.heads :], value


def _layer_weights(layer: LlamaDecoderLayer, shape: Shape, folded: bool) -> LayerWeights:
    attention, feed_forward = layer.self_attn, layer.mlp
    query = _interleaved(attention.q_proj.weight, shape) * shape.head_width**-0.5
    key = _interleaved(attention.k_proj.weight, shape)
    joined = torch.cat([query, key, attention.v_proj.weight])
    gate_up = torch.cat([feed_forward.gate_proj.weight, feed_forward.up_proj.weight])
    attention_norm = layer.input_layernorm.weight
    feed_forward_norm = layer.post_attention_layernorm.weight
    return LayerWeights(
        attention_norm=None if folded else attention_norm,
        query_key_value=joined * attention_norm if folded else joined,
        attention_output=attention.o_proj.weight,
        feed_forward_norm=None if folded else feed_forward_norm,
        gate_up=gate_up * feed_forward_norm if folded else gate_up,
        down=feed_forward.down_proj.weight,
    )


def _interleaved(weight: Tensor, shape: Shape) -> Tensor:
    """Order each head's rows so that rotary partners, half a head apart, become neighbours."""
    halves = weight.view(-1, 2, shape.head_width // 2, weight.shape[1])
    return halves.transpose(1, 2).reshape(weight.shape)
