"""From rows to a micro-batch's tensors: the packing, and what each trained token comes with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from swarmnode.training.corrections import Level
from swarmnode.training.packing import PackedBatch, pack
from swarmnode.training.plan import TrainedRow


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """A micro-batch: packed rows and one entry per trained token, shape (tokens,)."""

    packed: PackedBatch
    advantages: Tensor
    external: Tensor
    """bool"""
    weighted: Tensor
    """bool: level `full`."""
    gated: Tensor
    """bool"""
    shaped: Tensor
    """bool"""
    sampler_logprobs: Tensor
    """Nats, NaN where unknown."""
    total_logprobs: Tensor
    """Nats of the token's whole completion under its sampler; NaN where it isn't used."""
    levels: frozenset[Level]
    """Those that occur."""
    peers: Tensor
    """Number of the token's peer, as float; 0 for our own."""
    tokens_of_row: tuple[int, ...]


def training_batch(rows: Sequence[TrainedRow], device: torch.device) -> TrainingBatch:
    """Rows as one micro-batch on the model's device."""
    packed = pack([row.tree for row in rows], device)
    sampler: list[float] = []
    values: list[tuple[float, ...]] = []
    for row in rows:
        flags = (row.external, row.level == "full", row.level == "gate", row.level == "shaped")
        for one in row.completions:
            sampler += one.sampler_logprobs or (math.nan,) * len(one.token_ids)
            values.append((one.advantage, one.total_logprob, row.peer, *flags))
    per_completion = torch.tensor(values, dtype=torch.float32, device=device)
    per_token = per_completion[packed.completion_of_token]
    return TrainingBatch(
        packed=packed,
        advantages=per_token[:, 0].contiguous(),
        total_logprobs=per_token[:, 1].contiguous(),
        peers=per_token[:, 2].contiguous(),
        external=per_token[:, 3] > 0.0,
        weighted=per_token[:, 4] > 0.0,
        gated=per_token[:, 5] > 0.0,
        shaped=per_token[:, 6] > 0.0,
        sampler_logprobs=torch.tensor(sampler, dtype=torch.float32, device=device),
        levels=frozenset(row.level for row in rows),
        tokens_of_row=tuple(row.tokens for row in rows),
    )
