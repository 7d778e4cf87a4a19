"""What a micro-batch is to minimise: losses, corrections and penalties put together by settings.

Pure. Takes log-probs and gives one loss per token; what these are summed over and divided by is
the step's business. Order: the policy loss of each token (or its shaped form), times its correction
and whether it stays, plus the divergence from the reference and minus the entropy bonus of our own
tokens, times the normalisation's scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training.batches import TrainingBatch
from swarmnode.training.corrections import corrected, gate, shaped_loss
from swarmnode.training.losses import (
    PolicyLoss,
    TokenStatistics,
    cispo_loss,
    clipped_loss,
    log_ratios,
    loss_scales,
    reference_divergence,
    token_shares,
)
from swarmnode.training.records import token_record


@dataclass(frozen=True, slots=True)
class Fixed:
    """What doesn't move with the parameters within an inner step; one entry per token each."""

    old_logprobs: Tensor
    """Under the policy at the start of the round."""
    reference_logprobs: Tensor | None
    restrained: Tensor | None
    """bool: chosen by `covariance`."""


@dataclass(frozen=True, slots=True)
class BatchLoss:
    """One entry per token."""

    losses: Tensor
    """To be summed and divided by the round's sum of `shares`; with gradient."""
    shares: Tensor
    """What each adds to the divisor; 0 where the token doesn't count."""
    weights: Tensor
    corrected: Tensor
    """bool: whether a correction acted at all."""
    divergences: Tensor
    """k3 to the reference in nats, NaN where there is none."""
    policy: PolicyLoss


def batch_loss(
    batch: TrainingBatch, tokens: TokenStatistics, fixed: Fixed, settings: Training, longest: int
) -> BatchLoss:
    """The losses of one micro-batch; `longest` is the most tokens that a completion may have."""
    completions = batch.packed.completion_of_token
    weights, keep = correction(batch, fixed.old_logprobs, settings)
    policy = _policy_loss(batch, tokens, fixed, settings)
    losses = policy.losses * (weights * keep)
    own = keep * ~batch.external
    divergences = torch.full_like(losses, torch.nan, requires_grad=False)
    if fixed.reference_logprobs is not None:
        divergence = reference_divergence(tokens.logprobs, fixed.reference_logprobs)
        losses = losses + settings.kl_weight * own * divergence
        divergences = divergence.detach()
    if settings.entropy_weight > 0.0:
        losses = losses - settings.entropy_weight * own * tokens.entropies
    shares = token_shares(keep, completions, settings.normalization)
    return BatchLoss(
        losses=losses * loss_scales(shares, settings.normalization, longest),
        shares=shares,
        weights=weights,
        corrected=batch.weighted | batch.gated,
        divergences=divergences,
        policy=policy,
    )


def batch_record(
    batch: TrainingBatch, tokens: TokenStatistics, fixed: Fixed, loss: BatchLoss
) -> Tensor:
    """What each token of a micro-batch did (records.py), after its backward pass."""
    pushes = tokens.logprobs.grad
    unknown = torch.full_like(tokens.entropies, torch.nan)
    return token_record(
        {
            "losses": loss.losses,
            "shares": loss.shares,
            "advantages": batch.advantages,
            "entropies": tokens.entropies,
            "low": loss.policy.low_clipped,
            "high": loss.policy.high_clipped,
            "logprobs": tokens.logprobs,
            "sampler": batch.sampler_logprobs,
            "external": batch.external,
            "weights": loss.weights,
            "corrected": loss.corrected,
            "divergences": loss.divergences,
            "restrained": unknown if fixed.restrained is None else fixed.restrained,
            "pushes": torch.zeros_like(unknown) if pushes is None else pushes.abs(),
            "peers": batch.peers,
        }
    )


def correction(
    batch: TrainingBatch, old_logprobs: Tensor, settings: Training
) -> tuple[Tensor, Tensor]:
    """Importance weight of each token and whether it stays (1.0 or 0.0)."""
    weights, keep = torch.ones_like(old_logprobs), torch.ones_like(old_logprobs)
    completions = batch.packed.completion_of_token
    if "full" in batch.levels:
        full, stays = corrected(
            batch.advantages, old_logprobs, batch.sampler_logprobs, completions, settings
        )
        weights = full.where(batch.weighted, weights)
        keep = stays.to(keep.dtype).where(batch.weighted, keep)
    if "gate" in batch.levels:
        gated, stays = gate(
            old_logprobs,
            batch.total_logprobs,
            completions,
            settings.gate_width,
            settings.importance_cap,
        )
        weights = gated.where(batch.gated, weights)
        keep = stays.to(keep.dtype).where(batch.gated, keep)
    return weights, keep


def denominators(batch: TrainingBatch, old_logprobs: Tensor, settings: Training) -> Tensor:
    """The log-probs that each token's ratio is taken against.

    Under `ratio_denominator` = `sampler` those of whoever sampled our own tokens, where they are
    known (PPO-IS). A peer's claim is never taken: with A < 0 nothing bounds a ratio from above.
    """
    if settings.ratio_denominator == "old":
        return old_logprobs
    known = ~batch.external & ~batch.sampler_logprobs.isnan()
    return batch.sampler_logprobs.where(known, old_logprobs)


def _policy_loss(
    batch: TrainingBatch, tokens: TokenStatistics, fixed: Fixed, settings: Training
) -> PolicyLoss:
    log_ratio = log_ratios(
        tokens.logprobs,
        denominators(batch, fixed.old_logprobs, settings),
        batch.packed.completion_of_token,
        settings.ratio_level,
    )
    if settings.objective == "cispo" and settings.ratio_cap is not None:
        policy = cispo_loss(log_ratio, tokens.logprobs, batch.advantages, settings.ratio_cap)
    else:
        policy = clipped_loss(
            log_ratio,
            batch.advantages,
            settings.clip_low,
            settings.clip_high,
            settings.dual_clip,
        )
    losses = policy.losses
    if fixed.restrained is not None:
        losses = _restrained(losses, log_ratio, fixed.restrained, settings)
    if "shaped" in batch.levels:
        shaped = shaped_loss(tokens.logprobs, batch.advantages, settings.shaping_scale)
        losses = shaped.where(batch.shaped, losses)
    return PolicyLoss(losses, policy.low_clipped, policy.high_clipped)


def _restrained(
    losses: Tensor, log_ratio: Tensor, restrained: Tensor, settings: Training
) -> Tensor:
    """Clip-Cov: no gradient for the chosen tokens. KL-Cov: |log r| is added to theirs.

    arXiv 2505.22617. A departure: under KL-Cov the clip stays in force, which the paper drops.
    """
    if settings.covariance == "clip":
        return losses * ~restrained
    return losses + settings.covariance_kl_weight * log_ratio.abs() * restrained
