"""Packing: one group a row, its prompt once, all its completions behind it.

Pure bookkeeping from token ids to index tensors; knows no rewards and no model. What is saved
against one padded row per completion: the prompt is computed once, identical completions once, and
the last token of a completion, which predicts nothing, not at all. Invariants: masks come from
lengths, never from token values, so that padding may equal any token; the first token of every
completion is predicted from the prompt's last token.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

PADDING_SEGMENT = -1


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A prompt (at least one token) and those of its completions that are trained on."""

    prompt_ids: tuple[int, ...]
    completions: tuple[tuple[int, ...], ...]

    @property
    def length(self) -> int:
        """Positions of the row before padding."""
        inputs = sum(len(completion) - 1 for completion in set(self.completions) if completion)
        return len(self.prompt_ids) + inputs


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Rows as the model takes them, and where each trained token is predicted."""

    token_ids: Tensor
    """(rows, length) int64, right-padded with 0, which may also be a real token."""
    positions: Tensor
    """(rows, length) int64: 0 upwards in the prompt, and on from its end in every completion."""
    segments: Tensor
    """(rows, length) int64: 0 prompt, k >= 1 a completion, -1 padding."""
    predictors: Tensor
    """(predictors,) int64: the flat positions (row * length + column) that predict something."""
    predictor_of_token: Tensor
    """(tokens,) int64: for each trained token the index into `predictors`."""
    targets: Tensor
    """(tokens,) int64: the ids of the trained tokens: row by row, completion by completion."""
    completion_of_token: Tensor
    """(tokens,) int64: which completion of the batch, in the order given, a token is of."""


def micro_batches(
    lengths: Sequence[int],
    token_budget: int,
    fits: Callable[[int, int], bool] = lambda rows, longest: True,
) -> list[list[int]]:
    """Indices of rows grouped so that rows times longest row stays within the budget.

    Rows of like lengths come together, the longest first; a row over the budget stands alone.
    `fits` says of a number of rows and the longest whether another limit is kept as well.
    """
    order = sorted(range(len(lengths)), key=lambda index: lengths[index], reverse=True)
    batches: list[list[int]] = []
    for index in order:
        rows = len(batches[-1]) + 1 if batches else 0
        longest = lengths[batches[-1][0]] if batches else 0
        if batches and longest * rows <= token_budget and fits(rows, longest):
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


def pack(rows: Sequence[TreeRow], device: torch.device) -> PackedBatch:
    """One batch of all rows on `device`; at least one completion must not be empty."""
    packing = _Packing(max(row.length for row in rows))
    for row in rows:
        packing.add(row)
    return packing.tensors(device)


class _Packing:
    """The growing columns of a batch as flat lists: no tensor is made before all rows are in."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._token_ids: list[int] = []
        self._positions: list[int] = []
        self._segments: list[int] = []
        self._predictors: list[int] = []
        self._predictor_of_token: list[int] = []
        self._targets: list[int] = []
        self._completion_lengths: list[int] = []

    def add(self, row: TreeRow) -> None:
        start, prompt = len(self._token_ids), len(row.prompt_ids)
        self._token_ids += row.prompt_ids
        self._positions += range(prompt)
        self._segments += [0] * prompt
        # From the prompt's last token on, every position of the row predicts something, so that a
        # completion's predictors lie as far from the root's as its tokens from the prompt's last.
        root = len(self._predictors)
        first_inputs: dict[tuple[int, ...], int] = {}
        for completion in row.completions:
            inputs = max(len(completion) - 1, 0)
            if completion not in first_inputs:
                first_inputs[completion] = root + len(self._token_ids) - start - prompt + 1
                self._token_ids += completion[:-1]
                self._positions += range(prompt, prompt + inputs)
                self._segments += [len(first_inputs)] * inputs
            first = first_inputs[completion]
            if completion:
                self._predictor_of_token.append(root)
                self._predictor_of_token += range(first, first + inputs)
            self._targets += completion
            self._completion_lengths.append(len(completion))
        self._predictors += range(start + prompt - 1, len(self._token_ids))
        padding = start + self._length - len(self._token_ids)
        self._token_ids += [0] * padding
        self._positions += [0] * padding
        self._segments += [PADDING_SEGMENT] * padding

    def tensors(self, device: torch.device) -> PackedBatch:
        def tensor(values: list[int]) -> Tensor:
            return torch.tensor(values, dtype=torch.int64, device=device)

        return PackedBatch(
            token_ids=tensor(self._token_ids).view(-1, self._length),
            positions=tensor(self._positions).view(-1, self._length),
            segments=tensor(self._segments).view(-1, self._length),
            predictors=tensor(self._predictors),
            predictor_of_token=tensor(self._predictor_of_token),
            targets=tensor(self._targets),
            completion_of_token=torch.repeat_interleave(tensor(self._completion_lengths)),
        )
