"""The training forward of any architecture: packed rows through transformers' own forward.

A packed row is unpacked into one right-padded row for each completion, the prompt in front; rows of
like lengths go together. Hidden states come back in packed order, so that training needs to know
nothing of it. Costs what sharing the prompt would have saved.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy.matrices import UnsupportedModel

_LONGEST_TO_SHORTEST = 1.25
"""Rows of one batch differ in length by no more than this factor: at most a fifth is padding."""


@dataclass(frozen=True, slots=True)
class _Unpacked:
    """Sequences of a packed batch, each a list of flat places (row x length + column)."""

    sequences: Sequence[Sequence[int]]
    first_seen: dict[int, tuple[int, int]]
    """For each place that isn't padding: a sequence that has it, and where in it."""


class HuggingFaceForward:
    """transformers' forward on packed rows; puts the model into evaluation mode: no dropout."""

    def __init__(self, model: PreTrainedModel, length_multiple: int = 1) -> None:
        """Take any causal language model whose logits are its head's product, nothing more.

        length_multiple: rows are padded to a multiple of it, and their number to a power of two,
        so that shapes stay few; 1 pads as little as possible. Raises UnsupportedModel.
        """
        self._model = model.eval()
        self._length_multiple = length_multiple
        self._takes_positions = (
            "position_ids" in inspect.signature(model.base_model.forward).parameters
        )
        self._refuse_transformed_logits()

    @torch.no_grad()
    def _refuse_transformed_logits(self) -> None:
        # The first ids are often padding, whose embedding is 0.
        vocabulary = self.head_weight.shape[0]
        token_ids = torch.arange(vocabulary // 2, vocabulary, device=self.device)[None, :8]
        ours = self.head(self.causal_hidden(token_ids))
        theirs = self._model(input_ids=token_ids, use_cache=False).logits
        if not torch.allclose(ours, theirs, rtol=1e-3, atol=1e-3):
            raise UnsupportedModel(
                f"{type(self._model).__name__} transforms its logits (a soft cap or a scale); "
                "such models can't be trained yet"
            )

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return cast("torch.device", self._model.device)

    @property
    def head_weight(self) -> Tensor:
        """The output matrix, (vocabulary, width)."""
        return cast("Tensor", self._model.get_output_embeddings().weight)

    def tree_hidden(
        self,
        token_ids: Tensor,
        positions: Tensor,
        segments: Tensor,
        *,
        checkpoint_activations: bool = False,
    ) -> Tensor:
        """Return hidden states as `TrainingForward.tree_hidden` says.

        A completion must follow its prompt without a gap: positions count up from 0.
        """
        unpacked = _unpack(segments)
        batches = _batches([len(one) for one in unpacked.sequences])
        flat_ids = token_ids.flatten()
        starts: dict[int, int] = {}
        outputs, filled = [], 0
        for batch in batches:
            places = [unpacked.sequences[number] for number in batch]
            rows, width = self._shape(len(batch), max(map(len, places)))
            outputs.append(
                self._batch_hidden(flat_ids, places, rows, width, checkpoint_activations)
            )
            for row, number in enumerate(batch):
                starts[number] = filled + row * width
            filled += rows * width
        # Padding takes the hidden state of some other place: nobody reads it.
        sources = [0] * segments.numel()
        for place, (number, column) in unpacked.first_seen.items():
            sources[place] = starts[number] + column
        hidden = torch.cat([output.flatten(0, 1) for output in outputs])
        chosen = torch.tensor(sources, device=hidden.device)
        return hidden.index_select(0, chosen).view(*segments.shape, -1)

    def causal_hidden(self, token_ids: Tensor) -> Tensor:
        """Return hidden states as `TrainingForward.causal_hidden` says."""
        return self._hidden(token_ids, torch.ones_like(token_ids))

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits of hidden states, (..., width) to (..., vocabulary)."""
        return cast("Tensor", self._model.get_output_embeddings()(hidden))

    def _shape(self, rows: int, width: int) -> tuple[int, int]:
        if self._length_multiple == 1:
            return rows, width
        return 1 << (rows - 1).bit_length(), width + -width % self._length_multiple

    def _batch_hidden(
        self,
        flat_ids: Tensor,
        places: Sequence[Sequence[int]],
        rows: int,
        width: int,
        checkpoint_activations: bool,
    ) -> Tensor:
        """Hidden states of sequences, (rows, width, model width); rows may exceed the sequences."""
        lengths = torch.tensor([len(one) for one in places] + [1] * (rows - len(places)))
        padded = torch.tensor([[*one, *[0] * (width - len(one))] for one in places])
        padded = F.pad(padded, (0, 0, 0, rows - len(places)))
        attention = (torch.arange(width) < lengths.unsqueeze(1)).long()
        token_ids = flat_ids[padded.to(flat_ids.device)]
        if not checkpoint_activations:
            return self._hidden(token_ids, attention.to(flat_ids.device))
        with _recomputed_layers(self._model):
            return self._hidden(token_ids, attention.to(flat_ids.device))

    def _hidden(self, token_ids: Tensor, attention: Tensor) -> Tensor:
        positions = {}
        if self._takes_positions:
            columns = torch.arange(token_ids.shape[1], device=token_ids.device)
            positions["position_ids"] = columns.expand_as(token_ids)
        output = self._model.base_model(
            input_ids=token_ids, attention_mask=attention, use_cache=False, **positions
        )
        return cast("Tensor", output.last_hidden_state)


def _unpack(segments: Tensor) -> _Unpacked:
    length = segments.shape[1]
    sequences: list[list[int]] = []
    first_seen: dict[int, tuple[int, int]] = {}
    for row, numbers in enumerate(segments.tolist()):
        branches: dict[int, list[int]] = {}
        for column, number in enumerate(numbers):
            if number >= 0:
                branches.setdefault(number, []).append(row * length + column)
        prompt = branches.pop(0, [])
        for branch in branches.values() or [[]]:
            for column, place in enumerate([*prompt, *branch]):
                first_seen.setdefault(place, (len(sequences), column))
            sequences.append([*prompt, *branch])
    return _Unpacked(sequences, first_seen)


def _batches(lengths: Sequence[int]) -> list[list[int]]:
    """Indices grouped by like lengths, the longest first."""
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batches and lengths[batches[-1][0]] <= _LONGEST_TO_SHORTEST * lengths[index]:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches


@contextmanager
def _recomputed_layers(model: PreTrainedModel) -> Iterator[None]:
    """While entered, layers keep their inputs alone and run again in the backward pass.

    transformers' own switch needs training mode, which would let dropout in.
    """
    layers = [one for one in model.modules() if isinstance(one, GradientCheckpointingLayer)]
    for layer in layers:
        run = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
        layer.forward = run
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
