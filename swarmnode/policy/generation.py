"""Sampling of many completions to many prompts, each prompt computed once.

Rows live on a grid (prompts, slots): the completions of a prompt share its keys and values, each
keeps its own for what it sampled. Finished rows are compacted away. A row's draws are fixed before
the first step, so they do not depend on what other rows do. Knows token ids, not text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from swarmnode.policy.decoder import Decoder, DecoderWeights, causal_attention, forward
from swarmnode.policy.sampling import Sampled, cut_rows, draw, uniform_draws

_COMPACT_BELOW = 0.7
"""Share of slots still in use below which compaction pays."""


@dataclass(slots=True)
class _Cache:
    """Keys and values of the rows in play."""

    prompt: list[tuple[Tensor, Tensor]]
    """Per layer keys, (prompts, key_value_heads, head_width, prompt length), and values, with the
    last two the other way round."""
    prompt_mask: Tensor
    """(prompts, 1, 1, prompt length): 0 where a prompt has a token, else minus infinity."""
    own: list[tuple[Tensor, Tensor]]
    """Per layer (prompts, slots, key_value_heads, new tokens, head_width)."""


@torch.inference_mode()
def sample(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    completions_per_prompt: int,
    max_new_tokens: int,
    temperature: float,
    end_ids: Sequence[int],
    generator: torch.Generator,
) -> list[tuple[Sampled, ...]]:
    """Sample completions to each prompt; temperature 0 takes the likeliest token.

    Prompts must not be empty. The generator must be on the CPU; it advances by the same amount
    whatever is sampled.
    """
    if not prompts:
        return []
    weights = decoder.weights(folded=True)
    uniforms = uniform_draws(generator, max_new_tokens, len(prompts), completions_per_prompt)
    run = _Run(decoder, weights, prompts, completions_per_prompt, max_new_tokens, end_ids)
    run.decode(uniforms.to(decoder.device), temperature)
    return run.results(greedy=temperature == 0)


class _Run:
    """One call of `sample`: the grid's state and the loop over steps."""

    def __init__(
        self,
        decoder: Decoder,
        weights: DecoderWeights,
        prompts: Sequence[Sequence[int]],
        slots: int,
        max_new_tokens: int,
        end_ids: Sequence[int],
    ) -> None:
        device = decoder.device
        self.weights = weights
        self.slots = slots
        self.end_ids = torch.tensor(list(end_ids), device=device)
        lengths = torch.tensor([len(prompt) for prompt in prompts])
        steps = torch.arange(max_new_tokens, device=device)
        positions = steps.view(-1, 1) + lengths.to(device)
        # (step, prompt, 1, 1, head_width / 2)
        self.rotations = decoder.rotations(positions)[:, :, None, None]
        self.slot = torch.arange(len(prompts) * slots, device=device).view(-1, slots)
        self.alive = torch.ones(len(prompts), slots, dtype=torch.bool, device=device)
        shape = (max_new_tokens, len(prompts) * slots)
        self.tokens = torch.full(shape, -1, dtype=torch.long, device=device)
        self.logprobs = torch.zeros(shape, device=device)
        self.cache, self.logits = self._prefill(decoder, prompts, lengths, slots, max_new_tokens)

    def _prefill(
        self,
        decoder: Decoder,
        prompts: Sequence[Sequence[int]],
        lengths: Tensor,
        slots: int,
        max_new_tokens: int,
    ) -> tuple[_Cache, Tensor]:
        """Compute every prompt once; returns the cache and the first logits (prompts, 1, vocab)."""
        device, longest = decoder.device, int(lengths.max())
        token_ids = torch.zeros(len(prompts), longest, dtype=torch.long)
        for row, prompt in zip(token_ids, prompts, strict=True):
            row[: len(prompt)] = torch.tensor(prompt)
        kept: list[tuple[Tensor, Tensor]] = []

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            kept.append((key.permute(0, 2, 3, 1).contiguous(), value.transpose(1, 2).contiguous()))
            return causal_attention(layer, query, key, value)

        place = torch.arange(longest, device=device)
        hidden = forward(
            self.weights, token_ids.to(device), decoder.rotations(place)[:, None], attend
        )
        last = hidden[torch.arange(len(prompts)), lengths - 1].unsqueeze(1)
        shape = decoder.shape
        own = (len(prompts), slots, shape.key_value_heads, max_new_tokens, shape.head_width)
        beyond = place >= lengths.to(device).unsqueeze(-1)
        mask = torch.zeros(beyond.shape, device=device).masked_fill_(beyond, float("-inf"))
        cache = _Cache(
            prompt=kept,
            prompt_mask=mask[:, None, None],
            own=[(hidden.new_empty(own), hidden.new_empty(own)) for _ in kept],
        )
        return cache, F.linear(last, self.weights.head)

    def decode(self, uniforms: Tensor, temperature: float) -> None:
        """Sample until every row has finished or the steps are used up."""
        last_step = uniforms.shape[0] - 1
        for step in range(last_step + 1):
            drawn, logprobs = draw(self.logits, uniforms[step], temperature)
            flat = self.slot.flatten()
            self.tokens[step, flat] = drawn.flatten()
            self.logprobs[step, flat] = logprobs.flatten()
            self.alive &= ~torch.isin(drawn, self.end_ids)
            live = int(self.alive.sum())
            if live == 0 or step == last_step:
                return
            if live < _COMPACT_BELOW * self.alive.numel():
                drawn, uniforms = self._compact(drawn, uniforms)
            self.logits = self._advance(step, drawn)

    def _compact(self, drawn: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
        """Drop prompts without live rows, and as many slots as no prompt needs."""
        prompts = self.alive.any(1).nonzero().squeeze(1)
        alive = self.alive[prompts]
        slots = int(alive.sum(1).max())
        if alive.shape[0] == self.alive.shape[0] and slots == self.alive.shape[1]:
            return drawn, uniforms
        order = alive.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :slots]
        rows = prompts.unsqueeze(1)
        self.alive, self.slot = alive.gather(1, order), self.slot[rows, order]
        self.rotations = self.rotations[:, prompts]
        cache = self.cache
        cache.prompt_mask = cache.prompt_mask[prompts]
        cache.own = [(key[rows, order], value[rows, order]) for key, value in cache.own]
        cache.prompt = [(key[prompts], value[prompts]) for key, value in cache.prompt]
        return drawn[rows, order], uniforms[:, rows, order]

    def _advance(self, step: int, token_ids: Tensor) -> Tensor:
        """Feed the tokens of a step, (prompts, slots); returns the next logits."""
        prompts, slots = token_ids.shape
        shape, cache = self.weights.shape, self.cache
        repeats = shape.heads // shape.key_value_heads
        per_prompt = (prompts, slots, shape.key_value_heads, repeats, shape.head_width)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            own_keys, own_values = cache.own[layer]
            own_keys[:, :, :, step] = key
            own_values[:, :, :, step] = value
            seen_keys = own_keys[:, :, :, : step + 1].flatten(0, 2)
            seen_values = own_values[:, :, :, : step + 1].flatten(0, 2)
            prompt_keys, prompt_values = (kept.flatten(0, 1) for kept in cache.prompt[layer])
            # (prompts x key_value_heads, slots x repeats, head_width) meets the shared prompt
            grouped = query.view(per_prompt).transpose(1, 2).flatten(2, 3).flatten(0, 1)
            single = query.reshape(-1, repeats, shape.head_width)
            on_prompt = torch.bmm(grouped, prompt_keys).view(
                prompts, shape.key_value_heads, slots * repeats, -1
            )
            on_prompt = (on_prompt + cache.prompt_mask).view(
                prompts, shape.key_value_heads, slots, repeats, -1
            )
            on_own = torch.bmm(single, seen_keys.transpose(1, 2)).view(*per_prompt[:4], -1)
            scores = torch.cat([on_prompt, on_own.transpose(1, 2)], -1).softmax(-1)
            length = prompt_keys.shape[-1]
            from_prompt = torch.bmm(
                scores[..., :length].reshape(-1, slots * repeats, length), prompt_values
            ).view(prompts, shape.key_value_heads, slots, repeats, -1)
            from_own = torch.bmm(
                scores[..., length:].transpose(1, 2).reshape(-1, repeats, step + 1), seen_values
            )
            return from_prompt.transpose(1, 2).reshape(query.shape) + from_own.view(query.shape)

        hidden = forward(self.weights, token_ids, self.rotations[step], attend)
        return F.linear(hidden, self.weights.head)

    def results(self, *, greedy: bool) -> list[tuple[Sampled, ...]]:
        """Cut every row after its first end token and give it back by prompt."""
        return cut_rows(self.tokens.T, self.logprobs.T, self.end_ids, self.slots, greedy=greedy)
