"""What every engine samples with: the draws, the choice of a token, the cutting of finished rows.

All chance of a call is drawn before its first token, one uniform number for each possible token, so
that engines that compute the same logits sample the same rows. Knows no model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_BLOCK_SIZES = (256, 128, 64, 32)
"""Tokens in a block: one cumulative sum over blocks and one within is faster than one over all."""


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
    highest = scaled.amax(-1, keepdim=True)
    blocks = _in_blocks((scaled - highest).exp_())
    # Sums are long enough for rounding to matter; MPS has no doubles.
    wide = torch.float32 if logits.device.type == "mps" else torch.float64
    sums = blocks.sum(-1).to(wide).cumsum(-1)
    total = sums[..., -1:]
    block, share = _search(sums.expand(*uniforms.shape, -1), uniforms.to(wide).unsqueeze(-1))
    size = blocks.shape[-1]
    chosen = blocks.expand(*uniforms.shape, -1, -1).gather(
        -2, block.unsqueeze(-1).expand(*uniforms.shape, 1, size)
    )
    inside, _ = _search(chosen.squeeze(-2).to(wide).cumsum(-1), share)
    drawn = block * size + inside
    logprobs = scaled.expand(*uniforms.shape, -1).gather(-1, drawn) - highest - total.log()
    return drawn.squeeze(-1), logprobs.float().squeeze(-1)


def _in_blocks(weights: Tensor) -> Tensor:
    """View (..., vocabulary) as (..., blocks, size), padded with zeros where no size fits."""
    vocabulary = weights.shape[-1]
    size = next((size for size in _BLOCK_SIZES if vocabulary % size == 0), _BLOCK_SIZES[-1])
    padded = F.pad(weights, (0, -vocabulary % size))
    return padded.view(*weights.shape[:-1], -1, size)


def _search(cumulative: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Find the interval that holds `share`, (..., 1) in [0, 1], of the last cumulative sum.

    Returns its index and the share that lies behind within it, (..., 1) each. An interval without
    width is never found.
    """
    last = cumulative[..., -1:]
    target = torch.minimum(share * last, torch.nextafter(last, torch.zeros_like(last)))
    index = torch.searchsorted(cumulative.contiguous(), target, right=True)
    end = cumulative.gather(-1, index)
    start = cumulative.gather(-1, (index - 1).clamp(min=0)).where(index > 0, 0.0)
    return index, (target - start) / (end - start)


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
