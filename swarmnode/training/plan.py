"""Who is trained on, and how: from a round's groups to packed rows with their advantages.

Pure Python and small tensors on the CPU. Decides what is left to the settings `local_advantage` and
`external_advantage`; knows no model and no optimizer. Invariants: whatever doesn't count is left
out of the rows altogether, so that its tokens are neither in the loss nor in its denominator; the
rows of local groups don't depend on the external ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training.channels import ACCURACY_ALONE, ChannelSpread, round_advantages
from swarmnode.training.groups import TrainingGroup
from swarmnode.training.packing import PackedBatch, TreeRow, micro_batches, pack

LOGPROB_TOLERANCE = 1e-4
"""Nats by which a log-prob may exceed 0 before its completion's log-probs are distrusted."""


@dataclass(frozen=True, slots=True)
class TrainedCompletion:
    """A completion of at least one token that enters the loss."""

    token_ids: tuple[int, ...]
    advantage: float
    weighted: bool
    """Whether truncated importance sampling and the off-policy mask apply to it."""
    sampler_logprobs: tuple[float, ...] | None
    """As long as `token_ids` and finite, or None."""


@dataclass(frozen=True, slots=True)
class TrainedRow:
    """What is trained on of one live group."""

    prompt_ids: tuple[int, ...]
    external: bool
    completions: tuple[TrainedCompletion, ...]

    @property
    def tree(self) -> TreeRow:
        """The row's token ids."""
        return TreeRow(self.prompt_ids, tuple(one.token_ids for one in self.completions))


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows of a round, and how many groups and completions became what."""

    rows: tuple[TrainedRow, ...]
    counts: Mapping[str, float]
    """Under names of `training.METRICS`."""
    channels: Mapping[str, float]
    """The channels' metrics, under such names too."""
    spread: ChannelSpread
    """What the next round begins with."""


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """A micro-batch: packed rows and one entry per trained token, shape (tokens,)."""

    packed: PackedBatch
    advantages: Tensor
    external: Tensor
    """bool"""
    weighted: Tensor
    """bool"""
    sampler_logprobs: Tensor
    """Nats, NaN where unknown."""
    any_weighted: bool


def plan_round(
    groups: Sequence[TrainingGroup],
    settings: Training,
    channel_weights: Mapping[str, float] = ACCURACY_ALONE,
    spread: ChannelSpread | None = None,
) -> Plan:
    """Drops dead groups, whatever `settings` doesn't let count, and peers' oversized groups.

    `spread` is that of the plan of the round before.
    """
    if settings.external_advantage == "off":
        groups = [group for group in groups if group.source == "local"]
    worth = round_advantages(groups, settings, channel_weights, spread)
    counts: Counter[str] = Counter()
    rows = []
    for group, live, values, credited in zip(
        groups, worth.live.tolist(), worth.values.tolist(), worth.credited.tolist(), strict=True
    ):
        counts[f"groups/{'live' if live else 'dead'}_{group.source}"] += 1
        row = _trained_row(group, values, credited, settings, counts) if live else None
        if row is None:
            continue
        if row.external and row.tree.length > settings.micro_batch_tokens:
            # Attention's memory grows with the square: a stranger's group must not exhaust it.
            counts["groups/oversized_external"] += 1
        else:
            rows.append(row)
    numbers = {name: float(count) for name, count in counts.items()}
    return Plan(tuple(rows), numbers, worth.metrics, worth.spread)


def training_batches(
    rows: Sequence[TrainedRow], token_budget: int, device: torch.device
) -> list[TrainingBatch]:
    """All rows in micro-batches of at most `token_budget` positions, on the model's device."""
    chosen = micro_batches([row.tree.length for row in rows], token_budget)
    return [_training_batch([rows[index] for index in indices], device) for indices in chosen]


def _trained_row(
    group: TrainingGroup,
    group_advantages: Sequence[float],
    credited: Sequence[bool],
    settings: Training,
    counts: Counter[str],
) -> TrainedRow | None:
    external = group.source == "external"
    unknown = (None,) * len(group.completions)
    completions = []
    # The matrix of advantages is as wide as the widest group.
    for position, (token_ids, advantage, logprobs) in enumerate(
        zip(group.completions, group_advantages, group.sampler_logprobs or unknown, strict=False)
    ):
        if position in group.excluded:
            counts[f"completions/excluded_{group.source}"] += 1
            continue
        usable = logprobs if _usable(logprobs, len(token_ids)) else None
        weighted = external and settings.external_advantage == "weighted" and usable is not None
        counting = settings.external_advantage if external else settings.local_advantage
        signs_count = weighted or counting == "both"
        positive = advantage > 0.0 and (credited[position] or not external)
        if not token_ids or not (signs_count or positive):
            counts[f"completions/masked_{group.source}"] += 1
            continue
        if weighted:
            counts["completions/weighted_external"] += 1
        completions.append(TrainedCompletion(token_ids, advantage, weighted, usable))
    return TrainedRow(group.prompt_ids, external, tuple(completions)) if completions else None


def _usable(logprobs: tuple[float, ...] | None, length: int) -> bool:
    """Whether log-probs fit their tokens and can be what they claim to be."""
    if logprobs is None or len(logprobs) != length or not logprobs:
        return False
    # NaN fails the first comparison or poisons the sum; -inf fails the sum.
    return max(logprobs) <= LOGPROB_TOLERANCE and sum(logprobs) > float("-inf")


def _training_batch(rows: Sequence[TrainedRow], device: torch.device) -> TrainingBatch:
    packed = pack([row.tree for row in rows], device)
    sampler: list[float] = []
    values: list[tuple[float, bool, bool]] = []
    for row in rows:
        for one in row.completions:
            sampler += one.sampler_logprobs or (float("nan"),) * len(one.token_ids)
            values.append((one.advantage, row.external, one.weighted))
    per_completion = torch.tensor(values, dtype=torch.float32, device=device)
    per_token = per_completion[packed.completion_of_token]
    return TrainingBatch(
        packed=packed,
        advantages=per_token[:, 0].contiguous(),
        external=per_token[:, 1] > 0.0,
        weighted=per_token[:, 2] > 0.0,
        sampler_logprobs=torch.tensor(sampler, dtype=torch.float32, device=device),
        any_weighted=any(weighted for _, _, weighted in values),
    )
