"""Corrections for tokens that another policy sampled, and which of them a group's metadata allows.

Pure functions on flat tensors with one entry per trained token. μ is the sampler, π_old our policy
at the start of the round. What a sampler claims about itself is never believed beyond a cap: a
weight is at most that, and whatever is missing, misshapen or impossible demotes the group to a
level that needs less. No unbiased estimate exists without per-token log-probs, and none that is
useful exists for whole completions of distant policies: the product of their ratios spans many
orders of magnitude.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from swarmnode.config.training import Correction, Training
from swarmnode.training.groups import TrainingGroup
from swarmnode.training.losses import completion_means

Level = Literal["full", "gate", "shaped", "positive", "none", "off"]
"""`full`: per-token ratios. `gate`: the difference of total log-probs. `shaped`: a bounded
gradient. `positive`: positive advantages alone. `none`: as if our own policy had sampled
it. `off`: out."""

LOGPROB_TOLERANCE = 1e-4
"""Nats by which a log-prob may exceed 0 before its completion's log-probs are distrusted."""


@dataclass(frozen=True, slots=True)
class Picked:
    """A group's correction, and in a few words why it is that one."""

    level: Level
    why: str


def picked_correction(group: TrainingGroup, settings: Training) -> Picked:
    """The best correction that the settings want and all completions of the group allow."""
    if group.source == "local":
        return _picked_for_own(group, settings)
    wanted = settings.external_advantage
    if wanted != "weighted":
        return Picked("none" if wanted == "both" else wanted, f"external_advantage={wanted}")
    if _all_tokens_known(group):
        return Picked("full", "log-probs of every token")
    if _all_totals_known(group):
        return Picked("gate", "log-probs of whole completions alone")
    fallback = settings.external_fallback
    level: Level = "none" if fallback == "both" else fallback
    return Picked(level, f"no usable log-probs, external_fallback={fallback}")


def _picked_for_own(group: TrainingGroup, settings: Training) -> Picked:
    if not settings.local_correction:
        return Picked("none", "own samples")
    if _all_tokens_known(group):
        return Picked("full", "own samples, local_correction")
    return Picked("none", "own samples, log-probs not known for every token")


def usable_logprobs(logprobs: tuple[float, ...] | None, length: int) -> bool:
    """Whether log-probs fit `length` tokens and can be what they claim to be."""
    if logprobs is None or len(logprobs) != length or not logprobs:
        return False
    # NaN fails the first comparison or poisons the sum; -inf fails the sum.
    return max(logprobs) <= LOGPROB_TOLERANCE and sum(logprobs) > -math.inf


def _all_tokens_known(group: TrainingGroup) -> bool:
    known = group.sampler_logprobs or (None,) * len(group.completions)
    return all(
        usable_logprobs(logprobs, len(token_ids))
        for token_ids, logprobs in zip(group.completions, known, strict=True)
        if token_ids
    )


def _all_totals_known(group: TrainingGroup) -> bool:
    known = group.total_logprobs or (None,) * len(group.completions)
    return all(
        total is not None and -math.inf < total <= LOGPROB_TOLERANCE
        for token_ids, total in zip(group.completions, known, strict=True)
        if token_ids
    )


def corrected(
    advantages: Tensor,
    old_logprobs: Tensor,
    sampler_logprobs: Tensor,
    completion_of_token: Tensor,
    settings: Training,
) -> tuple[Tensor, Tensor]:
    """Weight of each token, at most the cap, and whether it stays (bool), from per-token log-probs.

    The sequence mask of DeepSeek-V3.2 acts with every form of `settings.correction`.
    """
    weights = truncated_importance_weights(old_logprobs, sampler_logprobs, settings.importance_cap)
    keep = off_policy_keep(
        advantages,
        old_logprobs,
        sampler_logprobs,
        completion_of_token,
        settings.off_policy_threshold,
    )
    band = (settings.correction_floor, settings.importance_cap)
    inside = band_keep(
        old_logprobs, sampler_logprobs, completion_of_token, band, settings.correction
    )
    return weights, keep & inside


def truncated_importance_weights(
    old_logprobs: Tensor, sampler_logprobs: Tensor, cap: float
) -> Tensor:
    """min(π_old / μ, cap) for each token, without gradient; 1 where the sampler's is NaN.

    Truncated importance sampling in the decoupled form (Yao et al., "Your efficient RL framework
    secretly brings you off-policy RL training", 2025): the clip's ratio stays π / π_old.
    """
    ratio = (old_logprobs - sampler_logprobs).detach().exp().clamp(max=cap)
    return ratio.nan_to_num(nan=1.0)


def off_policy_keep(
    advantages: Tensor,
    old_logprobs: Tensor,
    sampler_logprobs: Tensor,
    completion_of_token: Tensor,
    threshold: float,
) -> Tensor:
    """Whether each token's completion stays, as bool (DeepSeek-V3.2, equation 9).

    Dropped are completions with a negative advantage whose mean of log μ - log π_old exceeds
    `threshold` nats a token. Tokens whose sampler log-prob is NaN are no evidence. A departure:
    the paper's π is the current policy, ours that at the start of the round.
    """
    gap = (sampler_logprobs - old_logprobs.detach()).nan_to_num(nan=0.0)
    return (advantages >= 0.0) | (completion_means(gap, completion_of_token) <= threshold)


def band_keep(
    old_logprobs: Tensor,
    sampler_logprobs: Tensor,
    completion_of_token: Tensor,
    band: tuple[float, float],
    correction: Correction,
) -> Tensor:
    """Whether each token stays by the band of ratios that `correction` has, as bool.

    `icepop`: low ≤ π_old / μ ≤ high for the token (IcePop, in "Every Step Evolves", arXiv
    2510.18855). `sequence_mask`: the same for exp of the mean log ratio, the completion's
    geometric mean; TRL takes the product, which long completions always leave. `truncate`: all.
    """
    log_ratio = (old_logprobs.detach() - sampler_logprobs).nan_to_num(nan=0.0)
    if correction == "truncate":
        return torch.ones_like(log_ratio, dtype=torch.bool)
    if correction == "sequence_mask":
        log_ratio = completion_means(log_ratio, completion_of_token)
    ratio = log_ratio.exp()
    return (ratio >= band[0]) & (ratio <= band[1])


def gate(
    old_logprobs: Tensor,
    total_logprobs: Tensor,
    completion_of_token: Tensor,
    width: float,
    cap: float,
) -> tuple[Tensor, Tensor]:
    """Weight and whether it stays (bool) of each token, from its completion's total log μ alone.

    d = (log π_old(y) - log μ(y)) / |y| in our tokens, per token so that length doesn't decide;
    weight min(exp d, cap), out where |d| > `width`. The tokenizers may differ: both totals are
    then lower bounds of the text's probability, by one way of cutting it up each.
    `total_logprobs` has one entry per token, that of its completion; NaN gives weight 1.
    """
    known = ~total_logprobs.isnan()
    counts = torch.bincount(completion_of_token)[completion_of_token]
    mean = completion_means(old_logprobs.detach(), completion_of_token)
    difference = (mean - total_logprobs / counts).where(known, 0.0)
    return difference.exp().clamp(max=cap), difference.abs() <= width


def shaped_loss(logprobs: Tensor, advantages: Tensor, scale: float) -> Tensor:
    """-A f(π) with f(p) = p / (p + scale) (policy shaping of LUFFY, arXiv 2504.14945).

    The sampler counts as certain and there is no clip. The gradient with respect to log π is
    A γp / (p + γ)², at most A / 4 for either sign: what is impossible for us is left alone, where
    the plain loss would push it without end.
    """
    probability = logprobs.exp()
    return -advantages * probability / (probability + scale)


def effective_sample_share(weights: Tensor) -> Tensor:
    """(Σ w)² / (n Σ w²) in (0, 1]: the share of equally weighted tokens that say as much."""
    return weights.sum().square() / (len(weights) * weights.square().sum()).clamp(min=1e-12)
