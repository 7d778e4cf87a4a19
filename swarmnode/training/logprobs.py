"""The head in chunks: log-probs of the trained tokens without ever holding all logits at once.

Logits and their softmax are vocabulary times as large as what is wanted of them. A chunk of
predictors is computed, reduced to its tokens' log-probs and entropies, and thrown away; the
backward pass computes it again. The result is that of one piece but for rounding. Knows the head
as a function; the tokens of a chunk are found by their predictors, in any order.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from swarmnode.training.losses import TokenStatistics, token_statistics
from swarmnode.training.packing import PackedBatch

CHUNK_LOGITS = 2**24
"""Logits that are held at once, 64 MiB as float32; less is computed in one piece and kept."""

Head = Callable[[Tensor], Tensor]
"""From hidden states, (predictors, width), to logits, (predictors, vocabulary)."""


def chunked_statistics(
    head: Head,
    hidden: Tensor,
    packed: PackedBatch,
    temperature: float,
    vocabulary: int,
    *,
    entropy_gradient: bool = False,
    chunk_logits: int = CHUNK_LOGITS,
    rows_multiple: int = 1,
) -> TokenStatistics:
    """Log-probs and entropies of a batch's tokens; `hidden` is that of its predictors, in order.

    The head sees a multiple of `rows_multiple` states, so that its shapes stay few.
    """

    def part(states: Tensor, predictors: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        states = F.pad(states, (0, 0, 0, -len(states) % rows_multiple))
        tokens = token_statistics(
            head(states), predictors, targets, temperature, entropy_gradient=entropy_gradient
        )
        return tokens.logprobs, tokens.entropies

    size = max(1, chunk_logits // vocabulary)
    if len(hidden) <= size:
        return TokenStatistics(*part(hidden, packed.predictor_of_token, packed.targets))
    order = packed.predictor_of_token.argsort(stable=True)
    predictors, targets = packed.predictor_of_token[order], packed.targets[order]
    starts = torch.arange(0, len(hidden) + size, size, device=hidden.device)
    bounds = torch.searchsorted(predictors, starts).tolist()
    parts = [
        checkpoint(
            part,
            hidden[index * size : (index + 1) * size],
            predictors[low:high] - index * size,
            targets[low:high],
            use_reentrant=False,
            preserve_rng_state=False,
        )
        for index, (low, high) in enumerate(pairwise(bounds))
    ]
    back = order.argsort()
    logprobs, entropies = (torch.cat(list(values))[back] for values in zip(*parts, strict=True))
    return TokenStatistics(logprobs, entropies)
