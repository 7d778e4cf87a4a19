"""What each token of a micro-batch did, as one tensor, and what is made of it over a round.

A record has one row per name of `FIELDS` and one column per token, float32, without gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from swarmnode.training.corrections import effective_sample_share

FIELDS = (
    "losses",
    "shares",
    "advantages",
    "entropies",
    "low",
    "high",
    "logprobs",
    "sampler",
    "external",
    "weights",
    "corrected",
    "divergences",
    "restrained",
    "pushes",
    "peers",
)
"""Rows of a record; `sampler`, `divergences` and `restrained` are NaN where they don't exist."""


def token_record(values: Mapping[str, Tensor]) -> Tensor:
    """The values of all `FIELDS`, each of shape (tokens,), as (fields, tokens)."""
    return torch.stack([values[name].detach().float() for name in FIELDS])


def divisor(records: Sequence[Tensor]) -> Tensor:
    """What the summed loss of an inner step is divided by, over its micro-batches."""
    return torch.stack([record[FIELDS.index("shares")].sum() for record in records]).sum()


def token_metrics(record: Tensor, inner_steps: int, cap: float) -> dict[str, float]:
    """Means over the tokens that count of all inner steps, `record` being all their records."""
    columns = dict(zip(FIELDS, record.cpu(), strict=True))
    counted = columns["shares"] > 0.0
    dropped = float((~counted).sum())
    total = columns["shares"].sum()
    lost = lost_advantages(columns["advantages"], columns["pushes"])
    columns = {name: values[counted] for name, values in columns.items()}
    count = len(columns["losses"])
    if count == 0:
        return {"tokens/off_policy_dropped": dropped / inner_steps} | lost
    external = columns["external"]
    means = {
        "loss": float(columns["losses"].sum() / total),
        "entropy": float(columns["entropies"].mean()),
        "clip_ratio/low_mean": float(columns["low"].mean()),
        "clip_ratio/high_mean": float(columns["high"].mean()),
        "clip_ratio/region_mean": float((columns["low"] + columns["high"]).mean()),
        "external_token_share": float(external.mean()),
        "tokens/external": float(external.sum()) / inner_steps,
        "tokens/off_policy_dropped": dropped / inner_steps,
    }
    means["tokens/local"] = count / inner_steps - means["tokens/external"]
    optional = _optional_values(columns, cap) | gradient_shares(columns["pushes"], columns["peers"])
    reductions = {"max": Tensor.max, "min": Tensor.min}
    for name, values in optional.items():
        if len(values):
            reduce = reductions.get(name.rsplit("/", 1)[-1].removeprefix("external_"), Tensor.mean)
            means[name] = float(reduce(values))
    return means | lost


def lost_advantages(advantages: Tensor, pushes: Tensor) -> dict[str, float]:
    """By sign of the advantage, the share of the summed |A| whose tokens got no push at all.

    That is what clips and masks held back; unlike a share of tokens it says how much was wanted of
    them. A sign that no token has is missing.
    """
    found = {}
    for sign, chosen in {"positive": advantages > 0.0, "negative": advantages < 0.0}.items():
        wanted = advantages[chosen].abs()
        if len(wanted):
            lost = wanted[pushes[chosen] == 0.0].sum() / wanted.sum()
            found[f"advantage_lost/{sign}"] = float(lost)
    return found


def _optional_values(columns: Mapping[str, Tensor], cap: float) -> dict[str, Tensor]:
    """What is averaged where there is any of it."""
    foreign, corrected = columns["external"] > 0.0, columns["corrected"] > 0.0
    logprobs, weights = columns["logprobs"], columns["weights"]
    difference = (logprobs - columns["sampler"]).abs()
    own_difference = difference[~foreign & ~difference.isnan()]
    their_difference = difference[foreign & ~difference.isnan()]
    restrained = columns["restrained"]
    values = {
        "logprobs/local": logprobs[~foreign],
        "logprobs/external": logprobs[foreign],
        "kl": columns["divergences"][~foreign & ~columns["divergences"].isnan()],
        "covariance_restrained": restrained[~restrained.isnan()],
        "sampling/cap_hit_share": (weights[corrected] >= cap).float(),
    }
    for name, chosen in {"local": corrected & ~foreign, "external": corrected & foreign}.items():
        if chosen.any():
            share = effective_sample_share(weights[chosen])
            values[f"sampling/effective_sample_share/{name}"] = share.reshape(1)
    for name in ("mean", "max"):
        values[f"sampling/sampling_logp_difference/{name}"] = own_difference
        values[f"sampling/sampling_logp_difference/external_{name}"] = their_difference
    for name in ("mean", "min", "max"):
        values[f"sampling/importance_sampling_ratio/{name}"] = weights[corrected]
    return values


def gradient_shares(pushes: Tensor, peers: Tensor) -> dict[str, Tensor]:
    """Shares of all peers and of the largest in the summed `pushes`, both of shape (tokens,).

    A push is the absolute derivative of the summed loss by a token's log-prob, after weights,
    clips, shaping and normalisation. It costs nothing beyond the backward pass; that it leaves out
    how far a token's log-prob moves the parameters is the price. `peers` is 0 for our own tokens.
    """
    total = pushes.sum()
    if float(total) == 0.0:
        return {}
    sums = torch.zeros(int(peers.max()) + 1).index_add(0, peers.long(), pushes)
    shares = sums / total
    largest = shares[1:].max() if len(shares) > 1 else torch.zeros(())
    return {
        "external_gradient_share": shares[1:].sum().reshape(1),
        "external_gradient_share/largest_peer": largest.reshape(1),
    }
