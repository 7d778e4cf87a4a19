"""The native forward of the Llama, Qwen2 and Qwen3 families: prefill, decoding and training.

It reads the parameters of the transformers module itself, so that there is one set of weights and
their gradients land where optimizers look. How a token sees other tokens is passed in as `attend`.
A departure from transformers: the padding token's embedding gets its gradient where it is read.
Supported: RMSNorm, rotary positions of every static type, grouped key-value heads, biases,
query-key norms, SwiGLU, LoRA adapters. Sliding windows and other activations are refused.

Shapes: rows, length, heads, key_value_heads, head_width, width. A head's rotary partners lie half a
head apart; they are brought side by side before the rotation and stay so (which leaves products of
queries and keys unchanged), because rotating is one complex product then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.models.llama.modeling_llama import LlamaForCausalLM
from transformers.models.qwen2.modeling_qwen2 import Qwen2ForCausalLM
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM

from swarmnode.policy.attention import Attend
from swarmnode.policy.frugal import gated, rms_norm
from swarmnode.policy.layer_weights import (
    DecoderWeights,
    Layer,
    LayerWeights,
    Shape,
    gathered,
    in_place,
)
from swarmnode.policy.matrices import Linear, UnsupportedModel, joined, read_matrix
from swarmnode.policy.sharded import run_within

FAMILIES = (LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM)
_STATIC_ROTATIONS = ("default", "linear", "llama3", "yarn")


class Decoder:
    """A causal language model of a supported family as the native forward sees it."""

    def __init__(self, module: nn.Module) -> None:
        """Take a transformers module; UnsupportedModel, in one line, if it isn't covered."""
        if type(module) not in FAMILIES:
            raise UnsupportedModel(
                f"{type(module).__name__} has no native forward; "
                "models of the Llama, Qwen2 and Qwen3 families have one"
            )
        self.module = cast("Any", module)
        config = self.module.config
        head_width = getattr(config, "head_dim", None)
        self.shape = Shape(
            heads=config.num_attention_heads,
            key_value_heads=config.num_key_value_heads,
            head_width=head_width or config.hidden_size // config.num_attention_heads,
            epsilon=config.rms_norm_eps,
        )
        self._refuse_what_is_not_covered()

    def _refuse_what_is_not_covered(self) -> None:
        config, rotary = self.module.config, self.module.model.rotary_emb
        kinds = getattr(config, "layer_types", None) or ()
        for bad, what in (
            (config.hidden_act != "silu", f"the activation {config.hidden_act}"),
            (any(kind != "full_attention" for kind in kinds), "sliding attention windows"),
            (
                rotary.rope_type not in _STATIC_ROTATIONS
                or 2 * rotary.inv_freq.numel() != self.shape.head_width,
                f"rotary positions of the type {rotary.rope_type}",
            ),
        ):
            if bad:
                raise UnsupportedModel(f"the native forward has no {what}")
        for layer in self.module.model.layers:
            in_place(layer, self.shape)  # refuses matrices of other kinds

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.head_weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights and of the hidden states."""
        return self.head_weight.dtype

    @property
    def head_weight(self) -> Tensor:
        """The output matrix, (vocabulary, width)."""
        return read_matrix(self.module.lm_head).weight

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states, (..., width) to (..., vocabulary), with gradient."""
        return read_matrix(self.module.lm_head)(hidden)

    def training_weights(self) -> DecoderWeights:
        """Refer to the parameters in place: gradients reach them, nothing is copied."""
        modules = self.module.model.layers
        return self._weights(
            lambda index: in_place(modules[index], self.shape),
            read_matrix(self.module.lm_head),
            around=lambda index, run, hidden: run_within(modules[index], run, hidden),
            partners_adjacent=False,
        )

    @torch.no_grad()
    def sampling_weights(self) -> DecoderWeights:
        """Gather the weights as they are now for many forwards without gradient.

        Adapters are merged, neighbouring matrices joined and norms folded into what follows them.
        Under autocast the matrices are cast here, once and not in every forward.
        """
        kind, dtype = self.device.type, self.dtype
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        layers = [gathered(layer, self.shape, dtype) for layer in self.module.model.layers]
        head = joined([read_matrix(self.module.lm_head)], None, dtype)
        return self._weights(
            layers.__getitem__,
            head,
            around=lambda _, run, hidden: run(hidden),
            partners_adjacent=True,
        )

    def _weights(
        self,
        layers: Callable[[int], LayerWeights],
        head: Linear,
        around: Callable[[int, Layer, Tensor], Tensor],
        *,
        partners_adjacent: bool,
    ) -> DecoderWeights:
        body = self.module.model
        return DecoderWeights(
            shape=self.shape,
            embedding=body.embed_tokens.weight,
            layers=layers,
            final_norm=body.norm.weight,
            head=head,
            partners_adjacent=partners_adjacent,
            around=around,
            count=len(body.layers),
        )

    def rotations(self, positions: Tensor) -> Tensor:
        """Return the complex rotary factors of integer positions, (*positions, head_width / 2)."""
        rotary = self.module.model.rotary_emb
        angles = positions.unsqueeze(-1).float() * rotary.inv_freq.float()
        scale = torch.full_like(angles, rotary.attention_scaling)
        return torch.polar(scale, angles)


def forward(
    weights: DecoderWeights,
    token_ids: Tensor,
    rotations: Tensor,
    attend: Attend,
    *,
    recompute: bool = False,
) -> Tensor:
    """Return the hidden states after the final norm, (rows, length, width).

    token_ids: (rows, length). rotations: complex, (rows, length, 1, head_width / 2). recompute:
    keep no more than each layer's input for the backward pass and run the layer again there.
    """
    hidden = F.embedding(token_ids, weights.embedding)
    for index in range(weights.count):
        run = partial(_layer, weights, index, rotations, partial(attend, index))
        if recompute:
            # Nothing here draws random numbers, so their state need not be kept.
            run = partial(checkpoint, run, use_reentrant=False, preserve_rng_state=False)
        hidden = weights.around(index, run, hidden)
    return rms_norm(hidden, weights.final_norm, weights.shape.epsilon)


def _layer(
    weights: DecoderWeights,
    index: int,
    rotations: Tensor,
    attend: partial[Tensor],
    hidden: Tensor,
) -> Tensor:
    epsilon, layer = weights.shape.epsilon, weights.layers(index)
    normed = rms_norm(hidden, layer.attention_norm, epsilon)
    query, key, value = _heads(layer.query_key_value(normed), layer, weights, rotations)
    hidden = hidden + layer.attention_output(attend(query, key, value).flatten(-2))
    normed = rms_norm(hidden, layer.feed_forward_norm, epsilon)
    gate, up = layer.gate_up(normed).chunk(2, -1)
    return hidden + layer.down(gated(gate, up))


def _heads(
    projected: Tensor, layer: LayerWeights, weights: DecoderWeights, rotations: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Split (rows, length, all heads x head_width), normalise and rotate queries and keys."""
    shape = weights.shape
    rotated = shape.heads + shape.key_value_heads
    all_heads = projected.view(*projected.shape[:2], -1, shape.head_width)
    query_key, value = all_heads[:, :, :rotated], all_heads[:, :, rotated:]
    if layer.head_norms is not None:
        query_key = F.rms_norm(query_key, query_key.shape[-1:], None, shape.epsilon)
        query_key = query_key * layer.head_norms
    if not weights.partners_adjacent:
        halves = query_key.view(*query_key.shape[:-1], 2, -1)
        query_key = halves.transpose(-1, -2).flatten(-2)
        # Of its own, it doesn't keep what it was cut from for the backward pass.
        value = value.contiguous()
    turned = _rotate(query_key, rotations)
    return turned[:, :, : shape.heads], turned[:, :, shape.heads :], value


def _rotate(heads: Tensor, rotations: Tensor) -> Tensor:
    # There are no complex numbers of half precision.
    pairs = torch.view_as_complex(heads.float().view(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * rotations).flatten(-2).to(heads.dtype)
