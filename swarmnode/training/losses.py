"""The loss, token by token: log-probs, the clipped ratio, importance weights.

Pure functions on flat tensors with one entry per trained token, shape (tokens,). Knows no groups,
no packing and no optimizer. Everything is computed in float32 whatever the model's type.
Left out: a KL term to a reference policy (its weight is 0 in the paper; there is no reference
policy). Source: GRPO (arXiv 2402.03300) with DAPO's clip-higher and token-level mean (2503.14476),
truncated importance sampling against the sampler in the decoupled form, and
the off-policy sequence mask of DeepSeek-V3.2 (equation 9).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TokenStatistics:
    """What the head says about each trained token, at the sampling temperature, in nats."""

    logprobs: Tensor
    """With gradient."""
    entropies: Tensor
    """Of the distribution that the token was drawn from; without gradient."""


def token_statistics(
    logits: Tensor, predictor_of_token: Tensor, targets: Tensor, temperature: float
) -> TokenStatistics:
    """Log-probs of `targets` under logits of shape (predictors, vocabulary) divided by temperature.

    `predictor_of_token` says which row of the logits predicts each target.
    """
    distribution = (logits.float() / temperature).log_softmax(dim=-1)
    with torch.no_grad():
        entropies = -(distribution.exp() * distribution).sum(dim=-1)
    return TokenStatistics(
        logprobs=distribution[predictor_of_token, targets],
        entropies=entropies[predictor_of_token],
    )


@dataclass(frozen=True, slots=True)
class ClippedLoss:
    """The clipped objective of each token, negated, and where the clip took its gradient."""

    losses: Tensor
    low_clipped: Tensor
    """bool: ratio under the lower bound with a negative advantage."""
    high_clipped: Tensor
    """bool: ratio over the upper bound with a positive advantage."""


def clipped_loss(
    logprobs: Tensor, old_logprobs: Tensor, advantages: Tensor, clip_low: float, clip_high: float
) -> ClippedLoss:
    """-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) with r = exp(logprobs - old_logprobs)."""
    ratio = (logprobs - old_logprobs).exp()
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return ClippedLoss(
        losses=-torch.minimum(ratio * advantages, clipped * advantages),
        low_clipped=(ratio.detach() < 1.0 - clip_low) & (advantages < 0.0),
        high_clipped=(ratio.detach() > 1.0 + clip_high) & (advantages > 0.0),
    )


def truncated_importance_weights(
    old_logprobs: Tensor, sampler_logprobs: Tensor, cap: float
) -> Tensor:
    """min(π_old / μ, cap) for each token, without gradient; 1 where the sampler's is NaN."""
    ratio = (old_logprobs - sampler_logprobs).detach().exp().clamp(max=cap)
    return ratio.nan_to_num(nan=1.0)


def off_policy_keep(
    advantages: Tensor,
    old_logprobs: Tensor,
    sampler_logprobs: Tensor,
    completion_of_token: Tensor,
    threshold: float,
) -> Tensor:
    """Whether each token's completion stays, as bool.

    Dropped are completions with a negative advantage whose mean of log μ - log π_old exceeds
    `threshold` nats a token. Tokens whose sampler log-prob is NaN are no evidence.
    """
    gap = (sampler_logprobs - old_logprobs.detach()).nan_to_num(nan=0.0)
    counts = torch.bincount(completion_of_token)
    mean = torch.zeros(len(counts), dtype=gap.dtype, device=gap.device)
    mean = mean.index_add(0, completion_of_token, gap) / counts.clamp(min=1)
    return (advantages >= 0.0) | (mean <= threshold)[completion_of_token]
