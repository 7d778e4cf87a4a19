"""What every engine samples with: the draws, the choice of a token, the cutting of finished rows.

All chance of a call is drawn before its first token, one uniform number for each possible token, so
that engines that compute the same logits sample the same rows. Knows no model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Sampled:
    """One sampled row."""

    token_ids: tuple[int, ...]
    """The end token is the last one if the row stopped by itself."""
    logprobs: tuple[float, ...]
    """Nats at the sampling temperature; empty when greedy."""
    stopped: bool
    """False when the row was cut off."""


def uniform_draws(
    generator: torch.Generator, max_new_tokens: int, prompts: int, completions_per_prompt: int
) -> Tensor:
    """Return uniforms of [0, 1), (max_new_tokens, prompts, completions), from a CPU generator."""
    return torch.rand(max_new_tokens, prompts, completions_per_prompt, generator=generator)


def draw(logits: Tensor, uniforms: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Draw tokens by inverse CDF; returns them and their log-probs, both shaped like `uniforms`.

    logits: (..., vocabulary), broadcast over uniforms of shape (...). Temperature 0 takes the
    likeliest token and gives log-probs of 0.
    """
    if temperature == 0:
        drawn = logits.argmax(-1).expand(uniforms.shape)
        return drawn, torch.zeros_like(uniforms)
    scaled = logits.float() if temperature == 1 else logits.float() / temperature
    logprobs = scaled.log_softmax(-1).expand(*uniforms.shape, -1)
    cumulative = logprobs.exp().cumsum(-1)
    targets = uniforms.unsqueeze(-1) * cumulative[..., -1:]
    drawn = torch.searchsorted(cumulative, targets, right=True)
    drawn = drawn.clamp_(max=logits.shape[-1] - 1)
    return drawn.squeeze(-1), logprobs.gather(-1, drawn).squeeze(-1)


def cut_rows(
    tokens: Tensor, logprobs: Tensor, end_ids: Tensor, completions_per_prompt: int, *, greedy: bool
) -> list[tuple[Sampled, ...]]:
    """Cut every row, (rows, new tokens), after its first end token; one tuple for each prompt."""
    tokens = tokens.cpu()
    ended = torch.isin(tokens, end_ids.cpu())
    stopped = ended.any(1)
    lengths = torch.where(stopped, ended.to(torch.uint8).argmax(1) + 1, tokens.shape[1])
    rows = [
        Sampled(tuple(ids[:length]), () if greedy else tuple(values[:length]), stop)
        for ids, values, length, stop in zip(
            tokens.tolist(), logprobs.tolist(), lengths.tolist(), stopped.tolist(), strict=True
        )
    ]
    count = completions_per_prompt
    return [tuple(rows[start : start + count]) for start in range(0, len(rows), count)]
