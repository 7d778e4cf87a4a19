"""The decoder that is pre-trained: a small Llama over bytes, and the parts of it that are watched.

The same decoder as the built-in `tiny` in another shape, by the same native forward. Knows no text.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from swarmnode.config.pretraining import DecoderShape
from swarmnode.policy.forwards import choose_forward
from swarmnode.policy.tiny import decoder_config, random_start
from swarmnode.pretraining.corpus import END_ID, VOCABULARY
from swarmnode.scheduling.agent.gradients import late_layers, layer_matrices


class ByteModel:
    """A decoder over bytes as training sees it."""

    def __init__(
        self, shape: DecoderShape, context: int, seed: int, device: torch.device | None = None
    ) -> None:
        """A random start, the same for the same seed, in float32."""
        config = decoder_config(shape, vocabulary_size=VOCABULARY, positions=context, end_id=END_ID)
        self.module = random_start(config, seed).to(device or torch.device("cpu"))
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
        """The matrices whose norms an agent sees, whichever alignment is measured on."""
        return self.aligned(())


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
