"""Losses, token by token, against figures worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from swarmnode.training.corrections import off_policy_keep, truncated_importance_weights
from swarmnode.training.losses import clipped_loss, token_statistics

NAN = math.nan


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "gradient_flows"),
    [
        (1.0, 1.0, -1.0, True),
        (1.2, 1.0, -1.2, True),
        (1.5, 1.0, -1.28, False),
        (0.5, 1.0, -0.5, True),
        (0.9, -1.0, 0.9, True),
        (0.5, -1.0, 0.8, False),
        (1.5, -1.0, 1.5, True),
    ],
)
def test_the_clip_takes_the_gradient_only_where_the_ratio_has_moved_too_far_the_right_way(
    ratio: float, advantage: float, loss: float, gradient_flows: bool
) -> None:
    logprobs = torch.tensor([math.log(ratio) - 2.0], requires_grad=True)
    result = clipped_loss(logprobs + 2.0, torch.tensor([advantage]), 0.2, 0.28)
    assert result.losses.item() == pytest.approx(loss, rel=1e-5)
    result.losses.sum().backward()  # type: ignore[no-untyped-call]
    assert logprobs.grad is not None
    assert (logprobs.grad.item() != 0.0) == gradient_flows
    assert result.low_clipped.item() == (not gradient_flows and advantage < 0)
    assert result.high_clipped.item() == (not gradient_flows and advantage > 0)


def test_logprobs_and_entropies_are_taken_at_the_temperature_in_float32() -> None:
    logits = torch.tensor([[0.0, math.log(4.0)], [1.0, 1.0]], dtype=torch.bfloat16)
    wide = logits.float()
    tokens = token_statistics(logits, torch.tensor([0, 1, 0]), torch.tensor([1, 0, 0]), 0.5)
    odds = math.exp(float(wide[0, 1]) / 0.5)
    share = odds / (1.0 + odds)
    expected = torch.tensor([math.log(share), math.log(0.5), math.log(1.0 - share)])
    torch.testing.assert_close(tokens.logprobs, expected)
    entropy = -share * math.log(share) - (1.0 - share) * math.log(1.0 - share)
    torch.testing.assert_close(tokens.entropies, torch.tensor([entropy, math.log(2.0), entropy]))


def test_importance_weights_are_capped_and_one_where_the_sampler_is_unknown() -> None:
    old = torch.tensor([-1.0, -1.0, -1.0, -200.0, -0.1])
    sampler = torch.tensor([-1.5, -5.0, NAN, -1.0, -200.0])
    weights = truncated_importance_weights(old, sampler, 2.0)
    expected = torch.tensor([math.exp(0.5), 2.0, 1.0, 0.0, 2.0])
    torch.testing.assert_close(weights, expected)


def test_only_failures_that_are_far_likelier_to_the_sampler_are_dropped() -> None:
    completion = torch.tensor([0, 0, 1, 1, 2, 3])
    old = torch.tensor([-2.0, -2.0, -2.0, -2.0, -9.0, -9.0])
    sampler = torch.tensor([-1.4, -1.3, -1.0, -2.5, -1.0, NAN])
    negative = torch.tensor([-1.0, -1.0, -1.0, -1.0, 1.0, -1.0])
    keep = off_policy_keep(negative, old, sampler, completion, 0.5)
    assert keep.tolist() == [False, False, True, True, True, True]
