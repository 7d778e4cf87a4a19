"""Which tokens Clip-Cov and KL-Cov restrain: those where log-prob and advantage go together most.

Entropy falls with that covariance ("The Entropy Mechanism of RL for Reasoning Language Models",
arXiv 2505.22617). The choice is made over the whole round, so that micro-batches don't change it;
its chance follows from the step and from each completion's ids, so that neither the order of
groups nor a restart does. Pure functions; sources: equations of section 4.2 there.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training.plan import TrainedRow


def token_covariances(logprobs: Tensor, advantages: Tensor) -> Tensor:
    """(log π - mean log π) (A - mean A) of each token, means over all the tokens given."""
    return (logprobs - logprobs.mean()) * (advantages - advantages.mean())


def restrained_tokens(covariances: Tensor, draws: Tensor, settings: Training) -> Tensor:
    """The chosen tokens as bool, at least one where any may be chosen.

    Clip-Cov: `covariance_share` of all tokens, drawn from those with a covariance within its
    bounds. KL-Cov: that share with the highest covariance. `draws` are uniform in [0, 1).
    """
    count = max(1, int(settings.covariance_share * len(covariances)))
    if settings.covariance == "kl":
        ranks = -covariances
    else:
        within = (covariances > settings.covariance_low) & (covariances < settings.covariance_high)
        ranks = draws.where(within, torch.inf)
    chosen = ranks.topk(min(count, len(ranks)), largest=False)
    marks = torch.zeros_like(covariances, dtype=torch.bool)
    marks[chosen.indices] = ~chosen.values.isinf()
    return marks


def token_draws(rows: Sequence[TrainedRow], steps: int) -> list[float]:
    """A number in [0, 1) for each trained token, from the step and what the token is part of."""
    draws: list[float] = []
    for row in rows:
        for one in row.completions:
            text = f"{steps} {row.prompt_ids} {one.token_ids}".encode()
            generator = random.Random(hashlib.sha256(text).digest())
            draws += [generator.random() for _ in one.token_ids]
    return draws
