"""The decoder that is pre-trained: a small Llama over bytes, and the parts of it that are watched.

The same family as the built-in `tiny`, computed by the same native forward. Knows no text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from swarmnode.config.pretraining import DecoderShape
from swarmnode.policy.forwards import choose_forward
from swarmnode.pretraining.corpus import END_ID, VOCABULARY
from swarmnode.scheduling.agent.gradients import WATCHED_NORMS, late_layers, layer_matrices


def decoder_config(shape: DecoderShape, context: int) -> LlamaConfig:
    """The transformers configuration; equal shapes give equal ones."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward_width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=context,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=shape.initial_deviation,
        bos_token_id=None,
        eos_token_id=END_ID,
    )


class ByteModel:
    """A decoder over bytes as training sees it."""

    def __init__(
        self, shape: DecoderShape, context: int, seed: int, device: torch.device | None = None
    ) -> None:
        """A random start, the same for the same seed, in float32."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = LlamaForCausalLM(decoder_config(shape, context)).float()
        self.module = module.to(device or torch.device("cpu"))
        self._forward = choose_forward(self.module)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self._forward.device

    @property
    def size(self) -> int:
        """Its parameters."""
        return sum(parameter.numel() for parameter in self.module.parameters())

    def loss(self, rows: Tensor) -> Tensor:
        """The cross entropy of every token but the first, in nats, summed: (rows, context + 1)."""
        hidden = self._forward.causal_hidden(rows[:, :-1])
        logits = self._forward.head(hidden).float()
        return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")

    def aligned(self, layers: Sequence[int]) -> list[Tensor]:
        """The matrices whose gradients are those of a domain; by default of three late layers."""
        matrices = layer_matrices(self.module)
        return [matrices[layer] for layer in layers or late_layers(len(matrices))]

    def watched(self) -> list[Tensor]:
        """The matrices whose norms an agent sees."""
        matrices = layer_matrices(self.module)
        return [matrices[layer] for layer in late_layers(len(matrices), WATCHED_NORMS)]


def optimizer_of(
    model: ByteModel, learning_rate: float, weight_decay: float
) -> torch.optim.Optimizer:
    """AdamW as GPT-3 and Pythia have it (β 0.9 and 0.95); norms are not decayed."""
    matrices = [p for p in model.module.parameters() if p.ndim >= 2]
    others = [p for p in model.module.parameters() if p.ndim < 2]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.95), fused=True)
