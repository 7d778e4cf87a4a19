"""Keys and values in sampling: each prompt's once, each row's own, and how rows attend to both.

Rows are flat and in the order of their prompts, so that what is computed for each token costs the
live rows alone; only against the prompts do they stand on a grid (prompts, slots).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from swarmnode.policy.attention import Attend
from swarmnode.policy.layer_weights import Shape

_GROWTH = 32
"""Tokens by which the rows' own part grows when it is full."""


@dataclass(frozen=True, slots=True)
class RowsOfPrompts:
    """Which prompt each row continues; rows of a prompt stand together."""

    prompt: Tensor
    """(rows,), counted from 0 without gaps."""
    cell: Tensor | None
    """(rows,): each row's place on the flat grid; None when the grid is full and in order."""
    prompts: int
    slots: int
    """Rows of the prompt that has most."""

    @classmethod
    def full(cls, prompts: int, slots: int, device: torch.device) -> RowsOfPrompts:
        """Every prompt has the same number of rows."""
        prompt = torch.arange(prompts, device=device).repeat_interleave(slots)
        return cls(prompt, None, prompts, slots)

    def only(self, rows: Tensor) -> tuple[RowsOfPrompts, Tensor]:
        """Return the layout of some rows, (kept,) ascending, and the prompts that are left."""
        left, prompt, counts = torch.unique_consecutive(
            self.prompt[rows], return_inverse=True, return_counts=True
        )
        slots = int(counts.max())
        starts = counts.cumsum(0) - counts
        slot = torch.arange(len(rows), device=rows.device) - starts[prompt]
        cell = None if len(rows) == len(left) * slots else prompt * slots + slot
        return RowsOfPrompts(prompt, cell, len(left), slots), left

    def on_grid(self, values: Tensor) -> Tensor:
        """Bring (rows, ...) to (prompts, slots, ...); empty cells are 0."""
        if self.cell is not None:
            grid = values.new_zeros(self.prompts * self.slots, *values.shape[1:])
            values = grid.index_copy_(0, self.cell, values)
        return values.view(self.prompts, self.slots, *values.shape[1:])

    def off_grid(self, grid: Tensor) -> Tensor:
        """Bring (prompts, slots, ...) back to (rows, ...)."""
        flat = grid.flatten(0, 1)
        return flat if self.cell is None else flat.index_select(0, self.cell)


class Cache:
    """The keys and values of all rows in play, layer by layer."""

    def __init__(self, lengths: Tensor, longest: int, shape: Shape, dtype: torch.dtype) -> None:
        """lengths: (prompts,) of prompts padded to `longest`."""
        beyond = torch.arange(longest, device=lengths.device) >= lengths.unsqueeze(1)
        mask = torch.zeros(beyond.shape, dtype=dtype, device=lengths.device)
        self._prompt_mask = mask.masked_fill_(beyond, float("-inf"))
        """(prompts, longest): 0 where a prompt has a token, else minus infinity."""
        self._shape = shape
        self._prompt: list[tuple[Tensor, Tensor]] = []
        """Keys (prompts, key_value_heads, head_width, longest) and values (..., longest, width)."""
        self._own: list[tuple[Tensor, Tensor]] = []
        """Keys and values, (rows, key_value_heads, capacity, head_width)."""

    def add_prompt_layer(self, key: Tensor, value: Tensor) -> None:
        """Take the next layer's, (prompts, longest, key_value_heads, head_width) each."""
        keys = key.permute(0, 2, 3, 1).contiguous()
        self._prompt.append((keys, value.transpose(1, 2).contiguous()))

    def start_rows(self, rows: int) -> None:
        """Make room for the own tokens of `rows` rows."""
        sample = self._prompt_mask
        own = (rows, self._shape.key_value_heads, _GROWTH, self._shape.head_width)
        self._own = [(sample.new_empty(own), sample.new_empty(own)) for _ in self._prompt]

    def keep(self, rows: Tensor, prompts: Tensor) -> None:
        """Drop all other rows and prompts, layer by layer, so that little exists twice."""
        if len(prompts) < len(self._prompt_mask):
            self._prompt_mask = self._prompt_mask[prompts]
            for layer, (keys, values) in enumerate(self._prompt):
                self._prompt[layer] = keys[prompts], values[prompts]
        for layer, (keys, values) in enumerate(self._own):
            self._own[layer] = keys[rows], values[rows]

    def attend(self, step: int, layout: RowsOfPrompts) -> Attend:
        """Return how rows of one token each attend to their prompt and to their own tokens.

        Writes the step's keys and values: every layer must be attended once a step.
        """
        mask = self._prompt_mask.repeat_interleave(self._shape.key_value_heads, 0).unsqueeze(1)

        def attend(layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            own_keys, own_values = self._written(layer, step, key, value)
            return self._attended(query, self._prompt[layer], (own_keys, own_values), mask, layout)

        return attend

    def _written(self, layer: int, step: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """The own keys and values up to this step, (rows x key_value_heads, tokens, head_width)."""
        keys, values = self._own[layer]
        if step == keys.shape[2]:
            keys, values = self._own[layer] = _grown(keys), _grown(values)
        keys[:, :, step] = key.squeeze(1)
        values[:, :, step] = value.squeeze(1)
        return keys[:, :, : step + 1].flatten(0, 1), values[:, :, : step + 1].flatten(0, 1)

    def _attended(
        self,
        query: Tensor,
        prompt: tuple[Tensor, Tensor],
        own: tuple[Tensor, Tensor],
        mask: Tensor,
        layout: RowsOfPrompts,
    ) -> Tensor:
        groups, width = self._shape.key_value_heads, self._shape.head_width
        repeats, scale = self._shape.heads // groups, width**-0.5
        rows, (prompts, slots) = query.shape[0], (layout.prompts, layout.slots)
        prompt_keys, prompt_values = (kept.flatten(0, 1) for kept in prompt)
        own_keys, own_values = own
        by_group = query.view(rows, groups, repeats, width)
        on_grid = layout.on_grid(by_group).transpose(1, 2)
        # (prompts x key_value_heads, slots x repeats, head_width) meets the shared prompt.
        grouped = on_grid.reshape(prompts * groups, slots * repeats, width)
        to_prompt = torch.baddbmm(mask, grouped, prompt_keys, alpha=scale)
        length = to_prompt.shape[-1]
        to_prompt = to_prompt.view(prompts, groups, slots, repeats, length).transpose(1, 2)
        single = by_group.reshape(rows * groups, repeats, width)
        to_own = torch.bmm(single * scale, own_keys.transpose(1, 2))
        scores = torch.cat([layout.off_grid(to_prompt), to_own.view(rows, groups, repeats, -1)], -1)
        shares = scores.float().softmax(-1).to(query.dtype)
        on_prompt, on_own = shares[..., :length], shares[..., length:]
        on_grid = layout.on_grid(on_prompt).transpose(1, 2)
        from_prompt = torch.bmm(
            on_grid.reshape(prompts * groups, slots * repeats, length), prompt_values
        )
        from_prompt = from_prompt.view(prompts, groups, slots, repeats, width).transpose(1, 2)
        from_own = torch.bmm(on_own.reshape(rows * groups, repeats, -1), own_values)
        attended = layout.off_grid(from_prompt) + from_own.view(by_group.shape)
        return attended.reshape(query.shape)


def _grown(own: Tensor) -> Tensor:
    rows, groups, tokens, width = own.shape
    larger = own.new_empty(rows, groups, tokens + _GROWTH, width)
    larger[:, :, :tokens] = own
    return larger
