"""The losses, token by token: log-probs, ratios, clips, divergences, what a sum is divided by.

Pure functions on flat tensors with one entry per trained token, shape (tokens,), and
`completion_of_token` saying which completion each is of. Knows no groups, no packing, no settings
and no optimizer. Everything is computed in float32 whatever the model's type. r is the ratio
π / π_old of a token, A its advantage; every loss is the negated objective.
docs/losses.md says which setting takes which, and why.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from swarmnode.config.training import Normalization, RatioLevel


@dataclass(frozen=True, slots=True)
class TokenStatistics:
    """What the head says about each trained token, at the sampling temperature, in nats."""

    logprobs: Tensor
    """With gradient."""
    entropies: Tensor
    """Of the distribution that the token was drawn from; without gradient unless asked for."""


def token_statistics(
    logits: Tensor,
    predictor_of_token: Tensor,
    targets: Tensor,
    temperature: float,
    *,
    entropy_gradient: bool = False,
) -> TokenStatistics:
    """Log-probs of `targets` under logits of shape (predictors, vocabulary) divided by temperature.

    `predictor_of_token` says which row of the logits predicts each target.
    """
    distribution = (logits.float() / temperature).log_softmax(dim=-1)
    # First what has a gradient: a recomputation for the backward pass stops behind it.
    logprobs = distribution[predictor_of_token, targets]
    with torch.set_grad_enabled(entropy_gradient and torch.is_grad_enabled()):
        entropies = -(distribution.exp() * distribution).sum(dim=-1)
    return TokenStatistics(logprobs, entropies[predictor_of_token])


def completion_means(values: Tensor, completion_of_token: Tensor) -> Tensor:
    """For each token the mean of `values` over its completion's tokens, with gradient."""
    counts = torch.bincount(completion_of_token)
    sums = torch.zeros(len(counts), dtype=values.dtype, device=values.device)
    sums = sums.index_add(0, completion_of_token, values)
    return (sums / counts.clamp(min=1))[completion_of_token]


def log_ratios(
    logprobs: Tensor, old_logprobs: Tensor, completion_of_token: Tensor, level: RatioLevel
) -> Tensor:
    """log r of each token, at the level that the ratio is taken of.

    `token`: log π - log π_old (GRPO, arXiv 2402.03300). `sequence`: its mean over the completion,
    log s = 1/|y| Σ (log π - log π_old) (GSPO, arXiv 2507.18071, equation 7). `sequence_token`:
    sg[log s] + log π - sg[log π] (GSPO-token, equation 14), whose value is s and whose gradient is
    the token's own.
    """
    token_level = logprobs - old_logprobs
    if level == "token":
        return token_level
    sequence_level = completion_means(token_level, completion_of_token)
    if level == "sequence":
        return sequence_level
    return sequence_level.detach() + logprobs - logprobs.detach()


@dataclass(frozen=True, slots=True)
class PolicyLoss:
    """The objective of each token, negated, and where a bound acted on its ratio."""

    losses: Tensor
    low_clipped: Tensor
    """bool: ratio under the lower bound with a negative advantage."""
    high_clipped: Tensor
    """bool: ratio over the upper bound with a positive advantage."""


def clipped_loss(
    log_ratio: Tensor,
    advantages: Tensor,
    clip_low: float,
    clip_high: float,
    dual_clip: float | None = None,
) -> PolicyLoss:
    """-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A).

    GRPO (arXiv 2402.03300, equation 3); two bounds: DAPO (2503.14476, equation 10). With
    `dual_clip` = c and A < 0 it is max of the objective and c A (Ye et al., arXiv 1912.09729),
    so that one token far likelier than before can't dominate.
    """
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    losses = -torch.minimum(ratio * advantages, clipped * advantages)
    if dual_clip is not None:
        losses = losses.where(advantages >= 0.0, torch.minimum(losses, -dual_clip * advantages))
    return PolicyLoss(
        losses=losses,
        low_clipped=(ratio.detach() < 1.0 - clip_low) & (advantages < 0.0),
        high_clipped=(ratio.detach() > 1.0 + clip_high) & (advantages > 0.0),
    )


def cispo_loss(
    log_ratio: Tensor, logprobs: Tensor, advantages: Tensor, ratio_cap: float
) -> PolicyLoss:
    """-sg[min(r, ratio_cap)] A log π: no token loses its gradient.

    CISPO (MiniMax-M1, arXiv 2506.13585, equation 4). `ratio_cap` bounds the ratio itself, as in
    ScaleRL and TRL; verl's clamp(r, 1 - low, 1 + high) is another thing under the same name.
    """
    ratio = log_ratio.detach().exp()
    over = ratio > ratio_cap
    return PolicyLoss(
        losses=-ratio.clamp(max=ratio_cap) * advantages * logprobs,
        low_clipped=torch.zeros_like(over),
        high_clipped=over & (advantages > 0.0),
    )


def reference_divergence(logprobs: Tensor, reference_logprobs: Tensor) -> Tensor:
    """k3 = π_ref/π - log(π_ref/π) - 1 ≥ 0 of each token, an estimate of KL(π ‖ π_ref).

    GRPO (arXiv 2402.03300, equation 4; Schulman, "Approximating KL divergence", 2020). Unbiased for
    tokens that π sampled, so it is taken of our own tokens alone.
    """
    log_ratio = reference_logprobs - logprobs
    return log_ratio.exp() - log_ratio - 1.0


def token_shares(keep: Tensor, completion_of_token: Tensor, normalization: Normalization) -> Tensor:
    """What each token adds to the number that the round's summed loss is divided by.

    `keep` is 1.0 or 0.0. `tokens`: 1 each, so that the divisor is the number of tokens that count
    (DAPO, arXiv 2503.14476, equation 12). Otherwise 1 over its completion's, so that the divisor is
    the number of completions with a token that counts.
    """
    if normalization == "tokens":
        return keep
    counted = completion_means(keep, completion_of_token)
    lengths = torch.bincount(completion_of_token)[completion_of_token]
    return keep / (counted * lengths).clamp(min=1.0)


def loss_scales(shares: Tensor, normalization: Normalization, longest: int) -> Tensor:
    """What each token's loss is multiplied by before it is summed.

    `tokens`: 1. `sequences`: 1 over its completion's tokens that count (GRPO, arXiv 2402.03300,
    equation 3). `constant`: 1 / `longest`, the same for every completion whatever its length
    (Dr. GRPO, arXiv 2503.20783).
    """
    if normalization == "sequences":
        return shares
    return torch.ones_like(shares) / (longest if normalization == "constant" else 1)
