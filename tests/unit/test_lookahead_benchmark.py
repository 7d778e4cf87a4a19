"""What the benchmark of guessing and of int8 weights counts."""

from __future__ import annotations

import pytest
import torch

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.loading import load_policy
from swarmnode.training.packing import TreeRow
from tests.benchmarks.engine_lookahead import (
    Guesses,
    between,
    guesses,
    log_probs,
    lookup,
    quantised,
    rounded,
)


def test_a_lookup_takes_the_longest_ending_at_its_latest_place() -> None:
    context = [1, 2, 3, 4, 9, 2, 3, 5, 7, 2, 3]
    assert lookup(context, (2,), 2) == [5, 7]
    assert lookup([*context[:-3], 1, 2, 3], (3, 2), 2) == [4, 9]
    assert lookup(context, (3,), 2) == ()
    assert lookup([2, 3], (2,), 2) == ()


def test_guesses_are_counted_as_a_verifying_step_would_accept_them() -> None:
    # 4 5 follows 2 3 in the prompt: the first token is guessed with its successor, then 9 differs.
    found = guesses([([2, 3, 4, 5, 6, 2, 3], [4, 5, 9])], most=3, ngrams=(2,))
    assert found == Guesses(tokens=3, steps=1, drafted=3, accepted=2)
    assert found.share == pytest.approx(2 / 3)
    nothing = guesses([([1], [2, 3, 4])], most=3, ngrams=(2,))
    assert (nothing.steps, nothing.drafted, nothing.accepted) == (3, 0, 0)
    # Where a step costs the same whatever it verifies, the gain is its tokens.
    assert found.gain({8: 1.0, 64: 1.0}, 8) == pytest.approx(3.0)
    # Where each position costs as much, what was verified in vain is lost.
    assert found.gain({8: 8.0, 64: 64.0}, 8) == pytest.approx(3.0 / 4.0)
    assert nothing.gain({8: 8.0, 64: 64.0}, 8) == 1.0


def test_costs_lie_on_lines_between_those_that_were_measured() -> None:
    cost = {8: 1.0, 16: 3.0}
    assert between(cost, 8) == 1.0
    assert between(cost, 12) == 2.0
    assert between(cost, 32) == 6.0


def test_int8_is_off_by_half_a_step_of_each_channel_at_most_and_the_copy_alone_is_changed() -> None:
    weight = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    steps = weight.abs().amax(dim=1, keepdim=True) / 127
    assert ((rounded(weight) - weight).abs() <= steps / 2 + 1e-7).all()
    assert len(set(rounded(weight)[0].tolist())) <= 255
    policy = load_policy(PolicySettings(), 0)
    rows = [TreeRow((3, 4, 5), ((6, 7), (8, 9, 10)))]
    exact = log_probs(policy, rows)
    off = log_probs(quantised(policy, body=True, head=False), rows) - exact
    assert 0.0 < float(off.abs().max()) < 0.1
    head = quantised(policy, body=False, head=True)
    assert torch.equal(
        head.model.get_input_embeddings().weight, policy.model.get_input_embeddings().weight
    )
    assert 0.0 < float((log_probs(head, rows) - exact).abs().max()) < 0.1
    assert torch.equal(log_probs(policy, rows), exact)
