"""Training forwards: the hidden states of packed rows, with gradient, for any architecture.

`NativeForward` computes a packed row as it is, each prompt once, under the tree's mask; it covers
the families of `decoder`. `HuggingFaceForward` (next door) unpacks rows for any other architecture.
Both give the same values and gradients.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy.attention import causal_attention, masked_attention, tree_visibility
from swarmnode.policy.decoder import Decoder, forward
from swarmnode.policy.hf_forward import HuggingFaceForward
from swarmnode.policy.matrices import UnsupportedModel


class TrainingForward(Protocol):
    """A model as training sees it; deterministic, with gradient."""

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        ...

    @property
    def head_weight(self) -> Tensor:
        """The output matrix, (vocabulary, width); the embedding itself where they are tied."""
        ...

    def tree_hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        *,
        checkpoint_activations: bool = False,
    ) -> Tensor:
        """Return the final hidden states of packed rows, (rows, length, width).

        All tensors are integer (rows, length). Segment 0 is a row's prompt, k >= 1 its k-th
        completion, -1 padding; a token sees the prompt and its own segment, up to its position.
        checkpoint_activations: keep each layer's input alone, and run the layer again in the
        backward pass.
        """
        ...

    def causal_hidden(self, token_ids: Tensor) -> Tensor:
        """Return the final hidden states of right-padded rows, (rows, length, width)."""
        ...

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states, (..., width) to (..., vocabulary)."""
        ...


class NativeForward:
    """The native forward on packed rows."""

    def __init__(self, decoder: Decoder, length_multiple: int = 1) -> None:
        """length_multiple: rows are padded to a multiple of it, so that shapes stay few."""
        self._decoder = decoder
        self._length_multiple = length_multiple

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self._decoder.device

    @property
    def head_weight(self) -> Tensor:
        """The output matrix, (vocabulary, width)."""
        return self._decoder.head_weight

    def tree_hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        *,
        checkpoint_activations: bool = False,
    ) -> Tensor:
        """Return hidden states as `TrainingForward.tree_hidden` says."""
        length = token_ids.shape[1]
        more = -length % self._length_multiple
        token_ids, positions = F.pad(token_ids, (0, more)), F.pad(positions, (0, more))
        segments = F.pad(segments, (0, more), value=-1)
        attend = masked_attention(tree_visibility(positions, segments), self._decoder.dtype)
        hidden = forward(
            self._decoder.training_weights(),
            token_ids,
            self._decoder.rotations(positions).unsqueeze(2),
            attend,
            recompute=checkpoint_activations,
        )
        return hidden[:, :length] if more else hidden

    def causal_hidden(self, token_ids: Tensor) -> Tensor:
        """Return hidden states as `TrainingForward.causal_hidden` says."""
        positions = torch.arange(token_ids.shape[1], device=token_ids.device)
        rotations = self._decoder.rotations(positions).unsqueeze(1)
        return forward(self._decoder.training_weights(), token_ids, rotations, causal_attention)

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states, (..., width) to (..., vocabulary)."""
        return self._decoder.head(hidden)


def choose_forward(model: PreTrainedModel) -> TrainingForward:
    """Return the native forward where it covers the model, else transformers'.

    Raises UnsupportedModel, in one line, for a model that neither can train.
    """
    # Kernels and memory of MPS grow with every new shape.
    length_multiple = 64 if model.device.type == "mps" else 1
    try:
        return NativeForward(Decoder(model), length_multiple)
    except UnsupportedModel:
        return HuggingFaceForward(model, length_multiple)
