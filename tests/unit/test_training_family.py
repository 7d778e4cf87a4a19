"""Every loss of the family: its figures by hand, and what the whole step must not depend on."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import Any

import pytest
import torch
from torch import Tensor

from swarmnode.config.training import RatioLevel, Training
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.covariance import restrained_tokens, token_covariances, token_draws
from swarmnode.training.losses import (
    cispo_loss,
    clipped_loss,
    log_ratios,
    loss_scales,
    reference_divergence,
    token_shares,
)
from swarmnode.training.plan import plan_round
from tests.unit.test_training_external import with_sampler
from tests.unit.training_support import (
    TinyLlama,
    VersatileLlama,
    captured_step,
    make_group,
    make_groups,
)

LONGEST = 12
TWO = torch.tensor([0, 0, 0, 1])
"""Three tokens of one completion, one of another."""

FAMILY: dict[str, dict[str, Any]] = {
    "default": {},
    "grpo": {"preset": "grpo"},
    "dr_grpo": {"preset": "dr_grpo"},
    "lite_ppo": {"preset": "lite_ppo"},
    "gspo": {"preset": "gspo"},
    "gspo_token": {"preset": "gspo_token"},
    "cispo": {"preset": "cispo"},
    "luffy": {"preset": "luffy"},
    "dual_clip": {"dual_clip": 1.5},
    "entropy_bonus": {"entropy_weight": 0.1},
    "clip_cov": {"covariance": "clip", "covariance_low": -9.0, "covariance_share": 0.2},
    "kl_cov": {"covariance": "kl", "covariance_share": 0.2},
    "weighted": {"external_advantage": "weighted"},
    "icepop": {"external_advantage": "weighted", "correction": "icepop", "importance_cap": 1.2},
    "sequence_mask": {
        "external_advantage": "weighted",
        "correction": "sequence_mask",
        "correction_floor": 0.95,
    },
    "local_correction": {"local_correction": True},
    "ppo_is": {"ratio_denominator": "sampler"},
}


@cache
def round_of_groups() -> tuple[TrainingGroup, ...]:
    own = [with_sampler(group, 0.1) for group in make_groups(31, 3)]
    near, far = make_groups(32, 2, "external")
    return (*own, with_sampler(near, 0.1), with_sampler(far, -0.3))


def trained(settings: dict[str, Any], groups: Sequence[TrainingGroup], **changes: Any) -> Tensor:
    """The parameters after two inner steps of one round."""
    model = VersatileLlama(0)
    chosen = Training.model_validate(
        {"warmup_steps": 0, "learning_rate": 3e-3, "inner_steps": 2, **settings, **changes}
    )
    assert Trainer(model, chosen, 0.9, longest=LONGEST).step(groups).stepped
    return model.vector()


@pytest.mark.parametrize("name", FAMILY)
def test_neither_micro_batches_nor_the_order_of_groups_change_a_gradient(name: str) -> None:
    settings, groups = {**FAMILY[name], "gradient_clip": 1e9}, round_of_groups()
    whole, end = first_gradient(settings, groups)
    for changed in (
        first_gradient({**settings, "micro_batch_tokens": 60}, groups),
        first_gradient(settings, groups[::-1]),
    ):
        assert float((changed[0] - whole).norm()) < 1e-5 * float(whole.norm())
        # Later steps go through Adam, which divides by the gradient and so by its noise.
        assert float((changed[1] - end).norm()) < 1e-3


def first_gradient(
    settings: dict[str, Any], groups: Sequence[TrainingGroup]
) -> tuple[Tensor, Tensor]:
    """The gradient of the first inner step, and the parameters after the second."""
    model = VersatileLlama(0)
    given = {"warmup_steps": 0, "learning_rate": 3e-3, "inner_steps": 2, **settings}
    trainer = Trainer(model, Training.model_validate(given), 0.9, longest=LONGEST)
    gradient, _ = captured_step(trainer, model, groups)
    return gradient, model.vector()


def test_no_two_members_of_the_family_are_the_same() -> None:
    groups = round_of_groups()
    # The dual clip acts on ratios that two small steps don't reach.
    ends = {name: trained(FAMILY[name], groups) for name in FAMILY if name != "dual_clip"}
    for one, other in combinations(ends, 2):
        assert float((ends[one] - ends[other]).abs().max()) > 1e-5, (one, other)


def test_the_sequence_ratio_is_the_geometric_mean_of_its_completion() -> None:
    old = torch.tensor([-1.0, -2.0, -3.0, -1.0])
    logprobs = (old + torch.tensor([0.3, -0.1, 0.4, 0.5])).requires_grad_()
    sequence = log_ratios(logprobs, old, TWO, "sequence")
    torch.testing.assert_close(sequence, torch.tensor([0.2, 0.2, 0.2, 0.5]))
    sequence.sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(logprobs.grad, torch.ones(4))
    alone = logprobs.detach().clone().requires_grad_()
    token = log_ratios(alone, old, TWO, "sequence_token")
    torch.testing.assert_close(token, sequence)
    token[0].backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(alone.grad, torch.tensor([1.0, 0.0, 0.0, 0.0]))


def test_gspo_and_gspo_token_have_one_gradient_while_advantages_are_those_of_completions() -> None:
    old = torch.tensor([-1.0, -2.0, -3.0, -1.0])
    gradients = []
    levels: tuple[RatioLevel, ...] = ("sequence", "sequence_token")
    for level in levels:
        logprobs = (old + 1e-4 * torch.tensor([1.0, -2.0, 2.0, 3.0])).requires_grad_()
        ratio = log_ratios(logprobs, old, TWO, level)
        loss = clipped_loss(ratio, torch.tensor([1.0, 1.0, 1.0, -1.0]), 3e-4, 4e-4)
        shares = token_shares(torch.ones(4), TWO, "sequences")
        (loss.losses * shares).sum().backward()  # type: ignore[no-untyped-call]
        gradients.append(logprobs.grad)
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.parametrize(("advantage", "ratio", "loss"), [(-1.0, 5.0, 3.0), (-1.0, 2.0, 2.0)])
def test_the_dual_clip_bounds_what_a_negative_advantage_can_cost(
    advantage: float, ratio: float, loss: float
) -> None:
    log_ratio = torch.tensor([math.log(ratio)], requires_grad=True)
    result = clipped_loss(log_ratio, torch.tensor([advantage]), 0.2, 0.28, dual_clip=3.0)
    assert result.losses.item() == pytest.approx(loss)
    result.losses.sum().backward()  # type: ignore[no-untyped-call]
    assert log_ratio.grad is not None
    assert (log_ratio.grad.item() == 0.0) == (ratio > 3.0)


def test_cispo_caps_the_ratio_itself_and_takes_no_tokens_gradient() -> None:
    logprobs = torch.tensor([-1.0, -2.0, -3.0], requires_grad=True)
    log_ratio = torch.tensor([math.log(8.0), math.log(0.1), 0.0])
    advantages = torch.tensor([1.0, 1.0, -2.0])
    result = cispo_loss(log_ratio, logprobs, advantages, 5.0)
    torch.testing.assert_close(result.losses, torch.tensor([5.0, 0.2, -6.0]))
    assert result.high_clipped.tolist() == [True, False, False]
    result.losses.sum().backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(logprobs.grad, torch.tensor([-5.0, -0.1, 2.0]))


def test_the_divergence_from_the_reference_is_k3_and_zero_at_the_reference() -> None:
    logprobs, reference = torch.tensor([-1.0, -2.0]), torch.tensor([-1.0, -1.0])
    divergence = reference_divergence(logprobs, reference)
    torch.testing.assert_close(divergence, torch.tensor([0.0, math.e - 2.0]))


@pytest.mark.parametrize(
    ("normalization", "shares", "scales"),
    [
        ("tokens", [1.0, 0.0, 1.0, 1.0], [1.0] * 4),
        ("sequences", [0.5, 0.0, 0.5, 1.0], [0.5, 0.0, 0.5, 1.0]),
        ("constant", [0.5, 0.0, 0.5, 1.0], [0.1] * 4),
    ],
)
def test_shares_count_what_the_loss_is_divided_by(
    normalization: Any, shares: list[float], scales: list[float]
) -> None:
    found = token_shares(torch.tensor([1.0, 0.0, 1.0, 1.0]), TWO, normalization)
    torch.testing.assert_close(found, torch.tensor(shares))
    torch.testing.assert_close(loss_scales(found, normalization, 10), torch.tensor(scales))


def test_a_kl_weight_needs_a_reference_and_holds_the_policy_near_it() -> None:
    with pytest.raises(ValueError, match="keeps a reference"):
        Trainer(TinyLlama(0), Training(kl_weight=0.1), 1.0)
    groups = make_groups(33, 3)
    seen = {}
    for weight in (1e-9, 3.0):
        settings = Training(learning_rate=1e-2, warmup_steps=0, kl_weight=weight)
        trainer = Trainer(VersatileLlama(0), settings, 1.0)
        metrics = [trainer.step(groups).metrics for _ in range(6)]
        assert metrics[0]["kl"] == 0.0
        seen[weight] = metrics[-1]["kl"]
    assert seen[3.0] < 0.3 * seen[1e-9]


def test_the_divergence_is_of_our_own_tokens_alone() -> None:
    foreign = make_groups(34, 2, "external")
    chosen = {"external_advantage": "both"}
    with_kl = trained({**chosen, "kl_weight": 5.0}, foreign)
    torch.testing.assert_close(with_kl, trained(chosen, foreign), rtol=0.0, atol=1e-6)


def test_the_entropy_bonus_raises_entropy() -> None:
    groups = make_groups(35, 3)
    seen = []
    for weight in (0.0, 2.0):
        settings = Training(learning_rate=5e-3, warmup_steps=0, entropy_weight=weight)
        trainer = Trainer(TinyLlama(0), settings, 1.0)
        seen.append([trainer.step(groups).metrics["entropy"] for _ in range(5)][-1])
    assert seen[1] > seen[0] + 0.01


def test_clip_cov_draws_its_share_from_within_the_bounds_and_kl_cov_takes_the_highest() -> None:
    covariances = torch.linspace(-1.0, 8.0, 100)
    draws = torch.rand(100, generator=torch.Generator().manual_seed(1))
    clip = Training(covariance="clip", covariance_share=0.05)
    chosen = restrained_tokens(covariances, draws, clip)
    assert int(chosen.sum()) == 5
    assert bool(((covariances > 1.0) & (covariances < 5.0))[chosen].all())
    assert not torch.equal(chosen, restrained_tokens(covariances, draws.flip(0), clip))
    highest = restrained_tokens(
        covariances, draws, Training(covariance="kl", covariance_share=0.05, inner_steps=2)
    )
    assert torch.equal(highest, covariances >= covariances[95])
    none = restrained_tokens(torch.zeros(5), draws[:5], clip)
    assert not bool(none.any())


def test_the_covariance_is_that_of_log_prob_and_advantage() -> None:
    logprobs, advantages = torch.tensor([-1.0, -3.0, -2.0]), torch.tensor([1.0, -1.0, 0.0])
    torch.testing.assert_close(
        token_covariances(logprobs, advantages), torch.tensor([1.0, 1.0, 0.0])
    )


def test_draws_follow_from_step_and_completion_and_not_from_order() -> None:
    rows = plan_round(make_groups(36, 3), Training()).rows
    sizes = [row.tokens for row in rows]
    forwards = torch.split(torch.tensor(token_draws(rows, 4)), sizes)
    backwards = torch.split(torch.tensor(token_draws(rows[::-1], 4)), sizes[::-1])
    for one, other in zip(forwards, backwards[::-1], strict=True):
        assert torch.equal(one, other)
    assert token_draws(rows, 5) != token_draws(rows, 4)
    assert 0.3 < float(torch.cat(forwards).mean()) < 0.7


def test_clip_cov_takes_the_gradient_of_the_chosen_tokens() -> None:
    groups = make_groups(37, 3)
    settings = {"covariance": "clip", "covariance_low": -99.0, "covariance_high": 99.0}
    chosen = Training.model_validate({"warmup_steps": 0, "covariance_share": 1.0, **settings})
    model = TinyLlama(0)
    before = model.vector()
    metrics = Trainer(model, chosen, 1.0).step(groups).metrics
    assert metrics["covariance_restrained"] == 1.0
    assert metrics["grad_norm"] == 0.0
    assert torch.equal(model.vector(), before)


def test_masked_truncated_completions_are_as_if_not_trained_on_but_move_the_baseline() -> None:
    group = make_group(random.Random(38), (1.0, 0.0, 0.0, 1.0))
    cut = dataclasses.replace(group, truncated=(False, False, True, False))
    (row,) = plan_round([cut], Training(mask_truncated=True)).rows
    (whole,) = plan_round([group], Training()).rows
    assert row.completions == (*whole.completions[:2], whole.completions[3])
    (kept,) = plan_round([cut], Training()).rows
    assert kept == whole


def test_dr_grpo_divides_by_a_constant_whatever_the_lengths() -> None:
    groups = make_groups(39, 3)
    settings = Training.model_validate({"preset": "dr_grpo", "warmup_steps": 0})
    model = TinyLlama(0)
    metrics = Trainer(model, settings, 1.0, longest=50).step(groups).metrics
    expected = sum(
        -(reward - sum(group.rewards) / len(group.rewards)) * len(ids)
        for group in groups
        for reward, ids in zip(group.rewards, group.completions, strict=True)
    ) / (50 * sum(len(group.rewards) for group in groups))
    assert metrics["loss"] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match="longest completion"):
        Trainer(model, settings, 1.0)
