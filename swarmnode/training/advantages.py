"""Advantages: how much better a completion was than what it is compared with.

Pure functions on reward matrices of shape (groups, completions), NaN where a completion could not
be scored or where a group has fewer completions than the widest. Knows no tokens, no channels and
no model. Invariants: a group whose rewards are all equal gets exactly zero, however its baseline is
chosen; an unscored completion gets zero and moves no baseline. Source: GRPO (arXiv 2402.03300) with
the unbiased deviation and the epsilon that TRL uses; the batch's deviation: LitePPO (arXiv
2508.08221); external baselines: config/training.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from swarmnode.config.training import AdvantageScaling, ExternalBaseline
from swarmnode.training.groups import TrainingGroup

EPSILON = 1e-4
"""Added to the standard deviation before dividing by it."""

LIVENESS_THRESHOLD = 1e-6
"""A group whose rewards span no more than this is dead: float noise must not become signal."""


def reward_matrix(groups: Sequence[TrainingGroup]) -> Tensor:
    """Rewards as float32 of shape (groups, widest group or 1), NaN where there is none.

    A truncated completion counts as 0 whatever was reported for it.
    """
    width = max((len(group.rewards) for group in groups), default=0) or 1
    return torch.tensor(
        [
            [
                0.0 if cut else reward
                for reward, cut in zip(group.rewards, group.truncated, strict=True)
            ]
            + [float("nan")] * (width - len(group.rewards))
            for group in groups
        ],
        dtype=torch.float32,
    ).reshape(len(groups), width)


def live_groups(rewards: Tensor) -> Tensor:
    """Whether each group's scored rewards differ, as bool of shape (groups,)."""
    absent = rewards.isnan()
    highest = rewards.masked_fill(absent, -torch.inf).amax(dim=1)
    lowest = rewards.masked_fill(absent, torch.inf).amin(dim=1)
    return highest - lowest > LIVENESS_THRESHOLD


def mean_and_deviation(rewards: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and Bessel-corrected standard deviation of each row, shapes (groups, 1), NaN ignored.

    The deviation is 0 where fewer than two rewards are known, the mean NaN where none is.
    """
    count = (~rewards.isnan()).sum(dim=1, keepdim=True)
    mean = rewards.nanmean(dim=1, keepdim=True)
    squares = (rewards - mean).square().nansum(dim=1, keepdim=True)
    return mean, (squares / (count - 1).clamp(min=1)).sqrt()


def group_advantages(rewards: Tensor, scaling: AdvantageScaling = "group") -> Tensor:
    """Advantages of each completion within its own group, zero for dead groups and NaN rewards."""
    mean, deviation = mean_and_deviation(rewards)
    return _normalised(rewards, mean, deviation, scaling)


def advantages(
    rewards: Tensor,
    external: Sequence[bool],
    tasks: Sequence[str],
    baseline: ExternalBaseline,
    scaling: AdvantageScaling,
    *,
    live: Tensor | None = None,
    least_deviation: float = 0.0,
) -> Tensor:
    """Advantages of a round's groups, shape of `rewards`; local groups never see external ones.

    `external` and `tasks` have one entry per group. The order of groups doesn't matter. `live` says
    which groups are trained on, those whose rewards differ by default: the others count in no
    batch. A group's deviation counts as `least_deviation` at least.
    """
    mean, deviation = mean_and_deviation(rewards)
    if baseline == "receiver_task_mean":
        mean = _receiver_task_means(rewards, mean, external, tasks)
    elif baseline == "union":
        mean, deviation = _union_statistics(rewards, mean, deviation, external, tasks)
    if scaling == "batch":
        counted = live_groups(rewards) if live is None else live
        deviation = batch_deviation(rewards, counted, external, deviation)
    return _normalised(rewards, mean, deviation.clamp(min=least_deviation), scaling)


def batch_deviation(
    values: Tensor, live: Tensor, external: Sequence[bool], otherwise: Tensor
) -> Tensor:
    """Deviation of all completions of live local groups, for every group: shape (groups, 1).

    Where these are fewer than two or all equal, it is `otherwise`, each group's own. Dead groups
    don't count, a departure from TRL: dropping a group must not change what the others weigh.
    """
    local = live & ~torch.tensor(external, dtype=torch.bool)
    _, deviation = mean_and_deviation(values[local].reshape(1, -1))
    if deviation.numel() and float(deviation) > LIVENESS_THRESHOLD:
        return deviation.expand_as(otherwise)
    return otherwise


def _normalised(
    rewards: Tensor, mean: Tensor, deviation: Tensor, scaling: AdvantageScaling
) -> Tensor:
    centred = rewards - mean
    scaled = centred if scaling == "none" else centred / (deviation + EPSILON)
    counted = live_groups(rewards).unsqueeze(1) & ~rewards.isnan()
    return scaled.where(counted, 0.0)


def _receiver_task_means(
    rewards: Tensor, mean: Tensor, external: Sequence[bool], tasks: Sequence[str]
) -> Tensor:
    mean = mean.clone()
    for task, foreign in _external_rows(external, tasks):
        own = [
            row
            for row, (name, is_external) in enumerate(zip(tasks, external, strict=True))
            if name == task and not is_external
        ]
        task_mean = rewards[own].nanmean()
        if not task_mean.isnan():
            mean[foreign] = task_mean
    return mean


def _union_statistics(
    rewards: Tensor,
    mean: Tensor,
    deviation: Tensor,
    external: Sequence[bool],
    tasks: Sequence[str],
) -> tuple[Tensor, Tensor]:
    mean, deviation = mean.clone(), deviation.clone()
    for task, foreign in _external_rows(external, tasks):
        everyone = [row for row, name in enumerate(tasks) if name == task]
        # Sorted, because a sum of floats depends on its order and the order of peers must not.
        pooled = rewards[everyone].reshape(1, -1).sort(dim=1).values
        mean[foreign], deviation[foreign] = mean_and_deviation(pooled)
    return mean, deviation


def _external_rows(external: Sequence[bool], tasks: Sequence[str]) -> list[tuple[str, list[int]]]:
    rows: dict[str, list[int]] = {}
    for row, (task, is_external) in enumerate(zip(tasks, external, strict=True)):
        if is_external:
            rows.setdefault(task, []).append(row)
    return list(rows.items())
