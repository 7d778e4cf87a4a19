"""From the reward channels of a round's groups to one advantage per completion.

Pure functions over tensors of shape (channels, groups, completions), accuracy first, NaN where
there is nothing. Knows names and weights of channels, not what they measure. Source: GDPO (arXiv
2601.05242) in the order per-channel group normalisation, weighted sum, deviation of the batch of
local groups; what of peers counts is masked afterwards (swarmnode.training.plan). Departures: a
completion without accuracy counts in no channel; a near-constant channel is divided by a floor;
dead groups are left out of the batch; the sum is not centred anew, since its parts are centred; in
a sum of rewards a channel that says nothing of a completion counts as its group's mean, where TRL's
0 would be the best answer to a channel that pays below 0.
Invariant: accuracy alone with weight 1 gives, bit for bit, what `advantages` gives for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training.advantages import (
    EPSILON,
    advantages,
    batch_deviation,
    live_groups,
    mean_and_deviation,
    reward_matrix,
)
from swarmnode.training.groups import ACCURACY, TrainingGroup

ACCURACY_ALONE: Mapping[str, float] = {ACCURACY: 1.0}
SPREAD_MEMORY = 0.99
"""What a round leaves of the running deviation's weight: about 100 rounds count."""
NEAR_CONSTANT = 0.01
"""Deviation, of a channel's range of 1, below which differences are trifles whatever was before."""


@dataclass(frozen=True, slots=True)
class ChannelSpread:
    """The running deviation of each channel within local groups: a decaying mean of variances."""

    sums: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By channel: the decayed sum of the rounds' mean variances, and of their weights."""

    def after(self, names: Sequence[str], deviations: Tensor) -> ChannelSpread:
        """With a round's deviations, (channels, groups); without a group it stays as it was."""
        if not deviations.shape[1]:
            return self
        sums = dict(self.sums)
        for name, variance in zip(names, deviations.double().square().mean(dim=1), strict=True):
            total, weight = sums.get(name, (0.0, 0.0))
            sums[name] = (SPREAD_MEMORY * total + float(variance), SPREAD_MEMORY * weight + 1.0)
        return ChannelSpread(sums)

    def deviation(self, name: str) -> float:
        """The running deviation; 0 for a channel that was never seen."""
        total, weight = self.sums.get(name, (0.0, 0.0))
        return (total / weight) ** 0.5 if weight else 0.0

    def to_values(self) -> dict[str, list[float]]:
        """As plain values, for a checkpoint."""
        return {name: list(pair) for name, pair in self.sums.items()}

    @classmethod
    def from_values(cls, values: Mapping[str, Sequence[float]]) -> ChannelSpread:
        """The inverse of `to_values`."""
        return cls(
            {name: (float(total), float(weight)) for name, (total, weight) in values.items()}
        )


@dataclass(frozen=True, slots=True)
class RoundAdvantages:
    """What a round's groups are worth."""

    values: Tensor
    """(groups, completions): advantages, 0 where a group is dead or a completion unscored."""
    credited: Tensor
    """bool (groups, completions): better than its baseline in accuracy, as a peer's completion has
    to be under `external_advantage` = `positive`, whatever other channels say."""
    live: Tensor
    """bool (groups,): what is trained on."""
    metrics: Mapping[str, float]
    """By channel, under names of `TRAINING_METRICS`; empty with accuracy alone."""
    spread: ChannelSpread


def channel_matrices(groups: Sequence[TrainingGroup], names: Sequence[str]) -> Tensor:
    """Rewards as float32 of shape (channels, groups, widest group or 1).

    NaN where a group lacks the channel or the completion, and in every channel of a completion
    without accuracy.
    """
    accuracy = reward_matrix(groups)
    matrices = torch.full((len(names), *accuracy.shape), torch.nan)
    for channel, name in enumerate(names):
        if name == ACCURACY:
            matrices[channel] = accuracy
            continue
        for row, group in enumerate(groups):
            rewards = group.further_channels.get(name)
            if rewards is not None:
                matrices[channel, row, : len(rewards)] = torch.tensor(rewards)
    return matrices.masked_fill(accuracy.isnan(), torch.nan)


def round_advantages(
    groups: Sequence[TrainingGroup],
    settings: Training,
    weights: Mapping[str, float] = ACCURACY_ALONE,
    spread: ChannelSpread | None = None,
) -> RoundAdvantages:
    """Advantages of a round's groups, local and external; `spread` is that of the rounds before."""
    names = [ACCURACY, *sorted(weights.keys() - {ACCURACY})]
    rewards = channel_matrices(groups, names)
    external = [group.source == "external" for group in groups]
    tasks = [group.task for group in groups]
    local = ~torch.tensor(external, dtype=torch.bool)
    live = live_groups(rewards[0])
    if settings.trained_groups == "any_channel":
        live = live | (local & torch.stack([live_groups(each) for each in rewards]).any(dim=0))
    own = local & live
    deviations = torch.stack([mean_and_deviation(each)[1].flatten() for each in rewards])
    spread = (spread or ChannelSpread()).after(names, deviations[:, own])
    floors = [_floor(spread.deviation(name), settings.channel_deviation_floor) for name in names]
    mixed = torch.tensor([weights.get(name, 0.0) for name in names]).reshape(-1, 1, 1)
    parts = mixed * channel_advantages(rewards, external, tasks, settings, floors)
    values = (
        summed_advantages(rewards, mixed, live, external, tasks, settings)
        if settings.reward_aggregation == "sum_then_normalise"
        else normalised_advantages(parts, rewards, live, external, settings)
    )
    metrics: dict[str, float] = {}
    if len(names) > 1:
        shares = variance_shares(parts[:, own], rewards[:, own], settings)
        metrics = channel_metrics(names, rewards[:, local], shares, settings, floors)
        metrics |= length_correlations(names, rewards[:, local], _lengths(groups)[local])
    credited = advantages(rewards[0], external, tasks, settings.external_baseline, "none") > 0.0
    return RoundAdvantages(values.where(live.unsqueeze(1), 0.0), credited, live, metrics, spread)


def channel_advantages(
    rewards: Tensor,
    external: Sequence[bool],
    tasks: Sequence[str],
    settings: Training,
    floors: Sequence[float],
) -> Tensor:
    """Each channel's own advantages, normalised where that comes before the sum."""
    summed = settings.reward_aggregation == "sum_then_normalise"
    return torch.stack(
        [
            advantages(
                each,
                external,
                tasks,
                settings.external_baseline,
                "none" if summed else "group",
                least_deviation=floor,
            )
            for each, floor in zip(rewards, floors, strict=True)
        ]
    )


def summed_advantages(
    rewards: Tensor,
    weights: Tensor,
    live: Tensor,
    external: Sequence[bool],
    tasks: Sequence[str],
    settings: Training,
) -> Tensor:
    """Advantages of the weighted sum; `weights` is (channels, 1, 1).

    A missing reward counts as the mean of its channel in its group, 0 where there is none.
    """
    known = rewards.where(~rewards.isnan(), rewards.nanmean(dim=2, keepdim=True))
    total = (weights * known).nansum(dim=0).masked_fill(rewards.isnan().all(dim=0), torch.nan)
    baseline, scaling = settings.external_baseline, settings.advantage_scaling
    return advantages(total, external, tasks, baseline, scaling, live=live)


def normalised_advantages(
    parts: Tensor, rewards: Tensor, live: Tensor, external: Sequence[bool], settings: Training
) -> Tensor:
    """The sum of the channels' weighted advantages `parts`, scaled as a whole: GDPO."""
    counted = _sum_of(parts, rewards)
    if settings.advantage_scaling == "none":
        return counted.nan_to_num(nan=0.0)
    _, deviation = mean_and_deviation(counted)
    if settings.advantage_scaling == "batch":
        deviation = batch_deviation(counted, live, external, deviation)
    return (counted / (deviation + EPSILON)).nan_to_num(nan=0.0)


def variance_shares(parts: Tensor, rewards: Tensor, settings: Training) -> Tensor:
    """How much of the variance of the advantages of given groups is each channel's: (channels,).

    The covariance of a channel's part with the whole over the variance of the whole: the shares
    add up to 1, and one below 0 works against the others. NaN where all advantages are 0.
    """
    counted = _sum_of(parts, rewards)
    _, deviation = mean_and_deviation(counted)
    scale = deviation + EPSILON if settings.advantage_scaling == "group" else 1.0
    total = counted.nan_to_num(nan=0.0) / scale
    return (parts / scale * total).sum(dim=(1, 2)) / total.square().sum()


def channel_metrics(
    names: Sequence[str],
    rewards: Tensor,
    shares: Tensor,
    settings: Training,
    floors: Sequence[float],
) -> dict[str, float]:
    """What each channel was in local groups, `rewards` being theirs alone."""
    metrics: dict[str, float] = {}
    for name, each, share, floor in zip(names, rewards, shares, floors, strict=True):
        mean, deviation = mean_and_deviation(each.reshape(1, -1))
        figures = {"mean": mean, "std": deviation, "advantage_share": share}
        within = mean_and_deviation(each[live_groups(each)])[1]
        if settings.reward_aggregation == "normalise_then_sum" and len(within):
            figures["floored"] = (within < floor).float().mean()
        metrics |= {f"channels/{figure}/{name}": float(value) for figure, value in figures.items()}
    return metrics


def length_correlations(names: Sequence[str], rewards: Tensor, lengths: Tensor) -> dict[str, float]:
    """How far each channel pays for length, in [-1, 1]; `lengths` is (groups, completions)."""
    found = {}
    for name, each in zip(names, rewards, strict=True):
        value = rank_correlation(each, lengths)
        if value is not None:
            found[f"channels/length_correlation/{name}"] = value
    return found


def rank_correlation(values: Tensor, others: Tensor) -> float | None:
    """Spearman's correlation within groups, both of (groups, completions), NaN where unknown.

    Ranks are taken and centred in each group, so that differences between questions don't count.
    None without a group in which both differ.
    """
    known = ~(values.isnan() | others.isnan())
    ranks, further = (centred_ranks(each, known) for each in (values, others))
    differing = ranks.any(dim=1) & further.any(dim=1)
    if not differing.any():
        return None
    ranks, further = ranks[differing], further[differing]
    return float((ranks * further).sum() / (ranks.square().sum() * further.square().sum()).sqrt())


def centred_ranks(values: Tensor, known: Tensor) -> Tensor:
    """Ranks within each group, equal values sharing theirs, minus the mean rank; 0 if unknown."""
    one, other = values.unsqueeze(2), values.unsqueeze(1)
    both = known.unsqueeze(2) & known.unsqueeze(1)
    return (((one > other) & both).sum(dim=2) - ((one < other) & both).sum(dim=2)) / 2.0


def _lengths(groups: Sequence[TrainingGroup]) -> Tensor:
    """Tokens of each completion, (groups, widest group or 1), NaN where there is none."""
    lengths = torch.full(reward_matrix(groups).shape, torch.nan)
    for row, group in enumerate(groups):
        lengths[row, : len(group.completions)] = torch.tensor(
            [float(len(ids)) for ids in group.completions]
        )
    return lengths


def _sum_of(parts: Tensor, rewards: Tensor) -> Tensor:
    """The sum over channels, NaN where a completion has a reward in none of them."""
    return parts.sum(dim=0).masked_fill(rewards.isnan().all(dim=0), torch.nan)


def _floor(running: float, share: float) -> float:
    return max(share * running, NEAR_CONSTANT) if share else 0.0
