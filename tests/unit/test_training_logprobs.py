"""The head in chunks gives what one piece gives, and never holds more than a chunk."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from swarmnode.training.logprobs import chunked_statistics
from swarmnode.training.losses import token_statistics
from swarmnode.training.packing import PackedBatch, TreeRow, pack

VOCABULARY, WIDTH = 40, 8


def packed_rows(seed: int = 0) -> PackedBatch:
    """Rows with equal first tokens, an equal pair of completions and empty ones."""
    generator = random.Random(seed)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(generator.randrange(VOCABULARY) for _ in range(count))

    rows = [TreeRow(ids(3), (ids(5), ids(1), ids(7), ids(4))) for _ in range(3)]
    rows.append(TreeRow(ids(2), (ids(3), (), rows[0].completions[0], rows[0].completions[0])))
    return pack(rows, torch.device("cpu"))


class Head:
    """A matrix that remembers how many rows it was asked for at most."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.weight = torch.randn(VOCABULARY, WIDTH, requires_grad=True)
        self.most = 0

    def __call__(self, hidden: Tensor) -> Tensor:
        self.most = max(self.most, len(hidden))
        return hidden @ self.weight.T


def computed(chunk_rows: int, entropy_gradient: bool) -> tuple[list[Tensor], Head]:
    """Log-probs, entropies and the gradients of a weighted sum of both."""
    packed, head = packed_rows(), Head()
    torch.manual_seed(4)
    hidden = torch.randn(len(packed.predictors), WIDTH, requires_grad=True)
    tokens = chunked_statistics(
        head,
        hidden,
        packed,
        0.7,
        VOCABULARY,
        entropy_gradient=entropy_gradient,
        chunk_logits=chunk_rows * VOCABULARY,
    )
    factors = torch.linspace(-1.0, 2.0, len(packed.targets))
    (tokens.logprobs * factors).sum().add((tokens.entropies * factors).sum()).backward()  # type: ignore[no-untyped-call]
    assert hidden.grad is not None
    assert head.weight.grad is not None
    values = [tokens.logprobs, tokens.entropies, hidden.grad, head.weight.grad]
    return [one.detach() for one in values], head


@pytest.mark.parametrize("entropy_gradient", [False, True])
@pytest.mark.parametrize("chunk_rows", [1, 2, 7, 1000])
def test_chunks_change_neither_log_probs_nor_entropies_nor_gradients(
    chunk_rows: int, entropy_gradient: bool
) -> None:
    packed = packed_rows()
    values, head = computed(chunk_rows, entropy_gradient)
    torch.manual_seed(4)
    hidden = torch.randn(len(packed.predictors), WIDTH, requires_grad=True)
    weight = head.weight.detach().clone().requires_grad_()
    distribution = (hidden @ weight.T / 0.7).log_softmax(-1)
    logprobs = distribution[packed.predictor_of_token, packed.targets]
    entropies = -(distribution.exp() * distribution).sum(-1)[packed.predictor_of_token]
    factors = torch.linspace(-1.0, 2.0, len(packed.targets))
    loss = (logprobs * factors).sum()
    (loss + (entropies * factors).sum() if entropy_gradient else loss).backward()  # type: ignore[no-untyped-call]
    for value, expected in zip(
        values, [logprobs, entropies, hidden.grad, weight.grad], strict=True
    ):
        assert expected is not None
        torch.testing.assert_close(value, expected.detach(), rtol=1e-5, atol=1e-5)
    assert head.most <= chunk_rows


def test_between_forward_and_backward_no_logits_are_kept() -> None:
    packed, head = packed_rows(), Head()
    hidden = torch.randn(len(packed.predictors), WIDTH, requires_grad=True)
    kept: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        chunked_statistics(head, hidden, packed, 1.0, VOCABULARY, chunk_logits=3 * VOCABULARY)
    assert max(kept, default=0) < 3 * VOCABULARY
    with saved_tensors_hooks(note, lambda tensor: tensor):
        token_statistics(head(hidden), packed.predictor_of_token, packed.targets, 1.0)
    assert max(kept) == len(hidden) * VOCABULARY
