"""The losses of a soft actor-critic (SAC, arXiv 1812.05905; HDS, arXiv 2606.24133). Pure.

Tensors are (batch,) unless said otherwise, log densities in nats; a loss is a mean over the batch.
"""

from __future__ import annotations

from torch import Tensor


def critic_targets(
    rewards: Tensor,
    next_values: Tensor,
    next_log_densities: Tensor,
    *,
    discount: float,
    temperature: Tensor,
) -> Tensor:
    """y = r + γ (min_k Q'_k(s', a') - α log π(a'|s')), with a' drawn in s'; no gradient."""
    return (rewards + discount * (next_values - temperature * next_log_densities)).detach()


def critic_loss(values: Tensor, targets: Tensor) -> Tensor:
    """The squared errors of all critics, added: `values` is (critics, batch)."""
    return (values - targets).square().mean(dim=-1).sum()


def actor_loss(log_densities: Tensor, values: Tensor, temperature: Tensor) -> Tensor:
    """E[α log π(a|s) - min_k Q_k(s, a)], with a drawn by a pathwise gradient."""
    return (temperature.detach() * log_densities - values).mean()


def temperature_loss(
    log_temperature: Tensor, log_densities: Tensor, target_entropy: float
) -> Tensor:
    """-E[ln α (log π + H)], which raises α while the entropy is below the target H.

    Departure from the article's α in place of ln α, as the usual implementations: a small α then
    moves as fast as a large one.
    """
    return -(log_temperature * (log_densities.detach() + target_entropy)).mean()
