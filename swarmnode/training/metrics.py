"""The names of what a step reports and what they mean: docs/metrics.md is made from this.

Names are TRL's where the meaning is TRL's. The step adds up sums; this turns them into means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import torch
from torch import Tensor

from swarmnode.training.groups import TrainingGroup

METRICS: Mapping[str, str] = MappingProxyType(
    {
        "loss": "The clipped loss: sum over trained tokens over their number, mean over inner "
        "steps. With one inner step it says little: the ratio is 1 and only advantages remain.",
        "grad_norm": "Euclidean norm of the gradient before clipping, mean over inner steps.",
        "learning_rate": "Adam's step size in the last inner step.",
        "entropy": "Mean entropy in nats of the distribution behind each trained token.",
        "clip_ratio/low_mean": "Share of trained tokens held back by the ratio's lower bound.",
        "clip_ratio/high_mean": "Share of trained tokens held back by the ratio's upper bound.",
        "clip_ratio/region_mean": "Sum of the two.",
        "frac_reward_zero_std": "Share of the given groups whose rewards are all equal (dead); "
        "external groups are left out when they don't count.",
        "completions/mean_length": "Mean tokens of the local completions, end token included.",
        "completions/min_length": "Fewest tokens of a local completion.",
        "completions/max_length": "Most tokens of a local completion.",
        "completions/clipped_ratio": "Share of the local completions that were cut off.",
        "completions/mean_terminated_length": "Mean tokens of those that weren't; 0 if none.",
        "completions/masked_local": "Local completions of live groups that `local_advantage` keeps "
        "out of the loss, or without any token.",
        "completions/masked_external": "External completions of live groups that "
        "`external_advantage` keeps out of the loss, or without any token.",
        "completions/excluded_local": "Local completions of live groups that a guard-rail keeps "
        "out of the loss; their rewards count in the baseline.",
        "completions/excluded_external": "The same of external completions.",
        "completions/weighted_external": "External completions under importance weights.",
        "groups/live_local": "Local groups with successes and failures, trained on.",
        "groups/live_external": "External groups with successes and failures.",
        "groups/dead_local": "Local groups dropped because all rewards are equal.",
        "groups/dead_external": "External groups dropped because all rewards are equal.",
        "groups/oversized_external": "Live external groups dropped because one alone exceeds "
        "`micro_batch_tokens`.",
        "tokens/local": "Trained tokens of local completions, per inner step.",
        "tokens/external": "Trained tokens of external completions, per inner step.",
        "tokens/off_policy_dropped": "External tokens dropped by `off_policy_threshold`.",
        "external_token_share": "Share of the trained tokens that peers sampled.",
        "logprobs/local": "Mean log-prob in nats of the trained local tokens under our policy.",
        "logprobs/external": "The same for external tokens: far lower means distant peers.",
        "sampling/sampling_logp_difference/mean": "Mean absolute difference in nats between "
        "training's and the sampler's log-probs of local tokens: ought to be float noise.",
        "sampling/sampling_logp_difference/max": "The largest such difference.",
        "sampling/importance_sampling_ratio/mean": "Mean truncated weight of weighted tokens.",
        "sampling/importance_sampling_ratio/min": "The smallest such weight.",
        "sampling/importance_sampling_ratio/max": "The largest such weight, at most the cap.",
        "steps/taken": "Optimizer steps taken in this round.",
        "steps/skipped_no_live_group": "1 if nothing could be trained on, so that neither the "
        "policy nor the optimizer changed.",
        "steps/skipped_nonfinite_gradient": "1 if a gradient held NaN or infinity; the inner "
        "step was not taken and the round ended there.",
    }
)

CHANNEL_METRICS: Mapping[str, str] = MappingProxyType(
    {
        "channels/mean": "Mean over local completions.",
        "channels/std": "Standard deviation over local completions.",
        "channels/advantage_share": "Its share of the variance of the advantages of "
        "live local groups. The shares add up to 1; a channel below 0 works against the others.",
        "channels/floored": "Under `normalise_then_sum`: share of the local groups in "
        "which it differs by so little that its deviation is floored.",
    }
)
"""Where there is more than accuracy, each with the channel's name behind it."""

_COUNTED = ("groups/", "completions/masked", "completions/excluded")


def length_metrics(groups: Sequence[TrainingGroup]) -> dict[str, float]:
    """Lengths of all local completions, dead groups included; empty without any."""
    lengths = []
    terminated = []
    for group in groups:
        if group.source == "local":
            lengths += [len(completion) for completion in group.completions]
            terminated += [
                len(completion)
                for completion, cut in zip(group.completions, group.truncated, strict=True)
                if not cut
            ]
    if not lengths:
        return {}
    return {
        "completions/mean_length": sum(lengths) / len(lengths),
        "completions/min_length": float(min(lengths)),
        "completions/max_length": float(max(lengths)),
        "completions/clipped_ratio": 1.0 - len(terminated) / len(lengths),
        "completions/mean_terminated_length": (
            sum(terminated) / len(terminated) if terminated else 0.0
        ),
    }


def group_metrics(counts: Mapping[str, float]) -> dict[str, float]:
    """The plan's counts, zeros included, and the share of dead groups."""
    names = [name for name in METRICS if name.startswith(_COUNTED)]
    metrics = {name: counts.get(name, 0.0) for name in [*names, "completions/weighted_external"]}
    dead = metrics["groups/dead_local"] + metrics["groups/dead_external"]
    total = dead + metrics["groups/live_local"] + metrics["groups/live_external"]
    if total:
        metrics["frac_reward_zero_std"] = dead / total
    return metrics


def token_record(
    *,
    losses: Tensor,
    keep: Tensor,
    entropies: Tensor,
    low_clipped: Tensor,
    high_clipped: Tensor,
    logprobs: Tensor,
    sampler_logprobs: Tensor,
    external: Tensor,
    weights: Tensor,
    weighted: Tensor,
) -> Tensor:
    """What each token of a micro-batch did, without gradient, as (10, tokens) float32."""
    flags = (low_clipped, high_clipped, external, weighted)
    low, high, is_external, is_weighted = (flag.to(losses.dtype) for flag in flags)
    return torch.stack(
        [
            *(losses, keep, entropies, low, high, logprobs),
            *(sampler_logprobs, is_external, weights, is_weighted),
        ]
    )


def kept_tokens(records: Sequence[Tensor]) -> Tensor:
    """How many tokens count, over the micro-batches of an inner step: the loss's denominator."""
    return torch.stack([record[1].sum() for record in records]).sum()


def token_metrics(record: Tensor, inner_steps: int) -> dict[str, float]:
    """Means over the tokens that count of all inner steps, `record` being all their records."""
    record = record.cpu()
    dropped = record.shape[1] - float(record[1].sum())
    record = record[:, record[1] > 0.0]
    losses, _, entropies, low, high, logprobs, sampler, external, weights, weighted = record
    count = record.shape[1]
    if count == 0:
        return {"tokens/off_policy_dropped": dropped / inner_steps}
    foreign = external > 0.0
    metrics = {
        "loss": losses.mean(),
        "entropy": entropies.mean(),
        "clip_ratio/low_mean": low.mean(),
        "clip_ratio/high_mean": high.mean(),
        "clip_ratio/region_mean": (low + high).mean(),
        "external_token_share": external.mean(),
    }
    means = {name: float(value) for name, value in metrics.items()}
    means["tokens/external"] = float(external.sum()) / inner_steps
    means["tokens/local"] = count / inner_steps - means["tokens/external"]
    means["tokens/off_policy_dropped"] = dropped / inner_steps
    difference = (logprobs - sampler).abs()[~foreign & ~sampler.isnan()]
    optional = {
        "logprobs/local": logprobs[~foreign],
        "logprobs/external": logprobs[foreign],
        "sampling/sampling_logp_difference/mean": difference,
        "sampling/sampling_logp_difference/max": difference,
        "sampling/importance_sampling_ratio/mean": weights[weighted > 0.0],
        "sampling/importance_sampling_ratio/min": weights[weighted > 0.0],
        "sampling/importance_sampling_ratio/max": weights[weighted > 0.0],
    }
    reductions = {"max": Tensor.max, "min": Tensor.min}
    for name, values in optional.items():
        if len(values):
            reduce = reductions.get(name.rsplit("/", 1)[-1], Tensor.mean)
            means[name] = float(reduce(values))
    return means
