"""Sampling of many completions to many prompts; what prompts share is computed once.

The completions of a prompt share its keys and values; each row keeps its own for what it sampled.
Finished rows are compacted away. A row's draws are fixed before the first step, so they do not
depend on what other rows do. Knows token ids, not text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from swarmnode.policy.attention import causal_attention
from swarmnode.policy.decoder import Decoder, forward
from swarmnode.policy.generation_cache import Cache, RowsOfPrompts
from swarmnode.policy.layer_weights import DecoderWeights
from swarmnode.policy.sampling import Sampled, cut_rows, draw, uniform_draws

_COMPACT_BELOW = 0.9
"""Share of rows still in use below which compaction pays."""


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
    uniforms = uniform_draws(generator, max_new_tokens, len(prompts), completions_per_prompt)
    run = _Run(decoder, prompts, completions_per_prompt, max_new_tokens, end_ids)
    run.decode(uniforms.flatten(1).to(decoder.device), temperature)
    return cut_rows(
        run.tokens.T, run.logprobs.T, run.end_ids, completions_per_prompt, greedy=temperature == 0
    )


class _Run:
    """One call of `sample`: the rows in play and the loop over steps."""

    def __init__(
        self,
        decoder: Decoder,
        prompts: Sequence[Sequence[int]],
        completions_per_prompt: int,
        max_new_tokens: int,
        end_ids: Sequence[int],
    ) -> None:
        device, rows = decoder.device, len(prompts) * completions_per_prompt
        self._decoder = decoder
        self._weights = decoder.sampling_weights()
        self.end_ids = torch.tensor(list(end_ids), device=device)
        self.tokens = torch.full((max_new_tokens, rows), -1, dtype=torch.long, device=device)
        self.logprobs = torch.zeros((max_new_tokens, rows), device=device)
        self._row = torch.arange(rows, device=device)
        """Of each row in play, its column in `tokens`."""
        self._alive = torch.ones(rows, dtype=torch.bool, device=device)
        self._prompt_lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        self._layout = RowsOfPrompts.full(len(prompts), completions_per_prompt, device)
        self._cache, first = _prefill(decoder, self._weights, prompts, self._prompt_lengths)
        # (prompts, 1, vocabulary): all rows of a prompt draw their first token from the same.
        self._logits = first.unsqueeze(1)

    def decode(self, uniforms: Tensor, temperature: float) -> None:
        """Sample until every row has finished or the steps are used up; uniforms (steps, rows)."""
        for step, of_all_rows in enumerate(uniforms):
            draws = of_all_rows[self._row]
            if step == 0:
                draws = draws.view(self._logits.shape[0], -1)
            drawn, logprobs = draw(self._logits, draws, temperature)
            drawn = drawn.flatten()
            self.tokens[step, self._row] = drawn
            self.logprobs[step, self._row] = logprobs.flatten()
            self._alive &= ~torch.isin(drawn, self.end_ids)
            live = int(self._alive.sum())
            if live == 0 or step == len(uniforms) - 1:
                return
            if live < _COMPACT_BELOW * len(self._row):
                drawn = self._compact(self._alive.nonzero().squeeze(1), drawn)
            self._logits = self._advance(step, drawn)

    def _compact(self, kept: Tensor, drawn: Tensor) -> Tensor:
        """Drop all rows but `kept`, and prompts that have none left."""
        self._row, self._alive = self._row[kept], self._alive[kept]
        self._layout, prompts = self._layout.only(kept)
        self._prompt_lengths = self._prompt_lengths[prompts]
        self._cache.keep(kept, prompts)
        return drawn[kept]

    def _advance(self, step: int, token_ids: Tensor) -> Tensor:
        """Feed each row's token of a step, (rows,); returns the next logits, (rows, vocabulary)."""
        positions = self._prompt_lengths[self._layout.prompt] + step
        if step == 0:
            self._cache.start_rows(len(token_ids))
        hidden = forward(
            self._weights,
            token_ids.unsqueeze(1),
            self._decoder.rotations(positions)[:, None, None],
            self._cache.attend(step, self._layout),
        )
        return self._weights.head(hidden.squeeze(1))


def _prefill(
    decoder: Decoder, weights: DecoderWeights, prompts: Sequence[Sequence[int]], lengths: Tensor
) -> tuple[Cache, Tensor]:
    """Compute every prompt once; returns the cache and the first logits, (prompts, vocabulary).

    What prompts begin with in common goes through the layers once, and nothing is padded there;
    only to attend they stand in rows.
    """
    longest, device = max(map(len, prompts)), decoder.device
    tree = _PrefixTree.of(prompts, longest)
    token_ids, positions, at, grid = (
        torch.tensor(each, device=device)
        for each in (tree.token_ids, tree.positions, tree.places, tree.nodes)
    )
    cache = Cache(lengths, longest, decoder.shape, decoder.dtype)

    def in_rows(flat: Tensor) -> Tensor:
        return flat[0][grid]

    def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        key, value = in_rows(key), in_rows(value)
        cache.add_prompt_layer(key, value)
        attended = causal_attention(layer, in_rows(query), key, value)
        return attended.flatten(0, 1)[at].unsqueeze(0)

    hidden = forward(weights, token_ids.unsqueeze(0), decoder.rotations(positions)[:, None], attend)
    last = grid.gather(1, (lengths - 1).unsqueeze(1)).squeeze(1)
    # Of all logits only the last position's are made: a prompt's would fill gigabytes.
    return cache, weights.head(hidden[0, last])


@dataclass(frozen=True, slots=True)
class _PrefixTree:
    """Prompts as a tree: a node is a token with all that stands before it."""

    token_ids: list[int]
    """Of each node."""
    positions: list[int]
    places: list[int]
    """Of each node, one place of the grid where it stands: row times longest plus position."""
    nodes: list[list[int]]
    """The grid, (prompts, longest): a node for each token; node 0, which nobody sees, after them.
    """

    @classmethod
    def of(cls, prompts: Sequence[Sequence[int]], longest: int) -> _PrefixTree:
        children: dict[tuple[int, int], int] = {}
        tree = cls([], [], [], [])
        for row, prompt in enumerate(prompts):
            node, passed = -1, []
            for position, token in enumerate(prompt):
                known = children.setdefault((node, token), len(children))
                if known == len(tree.token_ids):
                    tree.token_ids.append(token)
                    tree.positions.append(position)
                    tree.places.append(row * longest + position)
                node = known
                passed.append(node)
            tree.nodes.append(passed + [0] * (longest - len(passed)))
        return tree
