"""The step's invariants: what may and what must not change the gradient."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from swarmnode.config.training import Training
from swarmnode.training import Trainer, TrainingGroup
from tests.unit.training_support import (
    TinyLlama,
    captured_step,
    make_group,
    make_groups,
    naive_logprobs,
    step_gradient,
)

PLAIN = Training(warmup_steps=0)
BOTH = Training(warmup_steps=0, external_advantage="both")


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def naive_step(groups: Sequence[TrainingGroup], temperature: float) -> tuple[Tensor, float]:
    """Plain GRPO's gradient and loss in the plainest form: token by token, no packing or masks."""
    model = TinyLlama(0)
    total = torch.zeros(())
    tokens = 0
    for group in groups:
        rewards = torch.tensor(group.rewards, dtype=torch.float64)
        if rewards.max() == rewards.min():
            continue
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        for completion, advantage in zip(group.completions, advantages, strict=True):
            logprobs = naive_logprobs(model, group.prompt_ids, completion, temperature)
            ratio = (logprobs - logprobs.detach()).exp()
            total = total - (ratio * float(advantage)).sum()
            tokens += len(completion)
    loss = total / tokens
    loss.backward()  # type: ignore[no-untyped-call]
    gradients = [one.grad.flatten() for one in model.parameters() if one.grad is not None]
    return torch.cat(gradients), float(loss.detach())


def test_without_external_groups_the_gradient_is_that_of_plain_grpo() -> None:
    groups = [*make_groups(1, 3), make_group(random.Random(9), rewards=(1.0, 1.0))]
    gradient, metrics = step_gradient(groups, PLAIN, temperature=0.7)
    expected, loss = naive_step(groups, 0.7)
    assert_close(gradient, expected)
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)
    assert metrics["tokens/external"] == 0.0
    assert metrics["groups/dead_local"] == 1.0


def test_micro_batches_and_padding_change_neither_loss_nor_gradient() -> None:
    groups = make_groups(2, 6)
    whole, metrics = step_gradient(groups, PLAIN)
    for budget in (1, 60, 150):
        split = PLAIN.model_copy(update={"micro_batch_tokens": budget})
        gradient, split_metrics = step_gradient(groups, split)
        assert_close(gradient, whole)
        for name in ("loss", "entropy", "grad_norm", "tokens/local"):
            assert split_metrics[name] == pytest.approx(metrics[name], rel=1e-5, abs=1e-6)


def test_the_order_of_groups_is_irrelevant() -> None:
    own, foreign = make_groups(3, 2), make_groups(4, 4, "external")
    for baseline in ("peer_group", "receiver_task_mean", "union"):
        settings = BOTH.model_copy(update={"external_baseline": baseline})
        forwards, _ = step_gradient([*own, *foreign], settings)
        backwards, _ = step_gradient([*reversed(foreign), *own], settings)
        assert_close(backwards, forwards)


def test_a_dead_group_changes_nothing() -> None:
    groups = make_groups(5, 3)
    dead = [make_group(random.Random(1), [value] * 8) for value in (0.0, 0.1, 1.0)]
    with_dead, metrics = step_gradient([*dead, *groups], PLAIN)
    without, _ = step_gradient(groups, PLAIN)
    assert_close(with_dead, without)
    assert metrics["frac_reward_zero_std"] == 0.5


def test_masked_external_tokens_are_out_of_numerator_and_denominator() -> None:
    own, foreign = make_groups(6, 2), make_groups(7, 1, "external")[0]
    winners = [index for index, reward in enumerate(foreign.rewards) if reward == 1.0]
    gradient, metrics = step_gradient([*own, foreign], PLAIN)
    # The same sum, taken over own tokens and winning tokens alone, from the paper's form of it.
    kept = sum(len(foreign.completions[index]) for index in winners)
    own_gradient, own_metrics = step_gradient(own, PLAIN)
    own_tokens = own_metrics["tokens/local"]
    assert metrics["tokens/external"] == kept
    assert metrics["tokens/local"] == own_tokens
    assert metrics["completions/masked_external"] == len(foreign.rewards) - len(winners)
    model = TinyLlama(0)
    advantages = torch.tensor(foreign.rewards) - torch.tensor(foreign.rewards).mean()
    advantages = advantages / (torch.tensor(foreign.rewards).std() + 1e-4)
    total = torch.zeros(())
    for index in winners:
        logprobs = naive_logprobs(model, foreign.prompt_ids, foreign.completions[index], 1.0)
        total = total - advantages[index] * logprobs.sum()
    total.backward()  # type: ignore[no-untyped-call]
    winning = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])
    expected = (own_gradient * own_tokens + winning) / (own_tokens + kept)
    assert_close(gradient, expected)


def test_without_a_live_group_neither_policy_nor_optimizer_changes() -> None:
    model = TinyLlama(0)
    trainer = Trainer(model, PLAIN, 1.0)
    trainer.step(make_groups(8, 2))
    before = model.vector()
    state = trainer.state_dict()
    moments = [value["exp_avg"].clone() for value in state["optimizer"]["state"].values()]
    for groups in ([], [make_group(random.Random(2), [0.1] * 8)]):
        report = trainer.step(groups)
        assert not report.stepped
        assert report.metrics["steps/skipped_no_live_group"] == 1.0
    assert torch.equal(model.vector(), before)
    after = trainer.state_dict()
    assert after["steps"] == 1
    for moment, value in zip(moments, after["optimizer"]["state"].values(), strict=True):
        assert torch.equal(moment, value["exp_avg"])
        assert float(value["step"]) == 1.0


def test_a_gradient_that_is_not_finite_is_skipped_and_counted() -> None:
    model = TinyLlama(0)
    trainer = Trainer(model, PLAIN.model_copy(update={"inner_steps": 3}), 1.0)
    with torch.no_grad():
        model.llama.model.layers[0].mlp.up_proj.weight[0, 0] = torch.inf
    before = model.vector()
    report = trainer.step(make_groups(9, 2))
    assert not report.stepped
    assert report.metrics["steps/skipped_nonfinite_gradient"] == 1.0
    assert torch.equal(model.vector(), before)
    assert trainer.steps == 0
    assert all(one.grad is None for one in model.parameters())


def test_a_frozen_old_policy_makes_the_clip_act_on_the_second_inner_step() -> None:
    groups = make_groups(10, 4)
    quick = Training(warmup_steps=0, learning_rate=3e-2)
    once = Trainer(TinyLlama(0), quick, 1.0).step(groups).metrics
    twice = Trainer(TinyLlama(0), quick.model_copy(update={"inner_steps": 2}), 1.0).step(groups)
    assert once["clip_ratio/region_mean"] == 0.0
    low, high = twice.metrics["clip_ratio/low_mean"], twice.metrics["clip_ratio/high_mean"]
    assert low > 0.0
    assert high > 0.0
    assert twice.metrics["clip_ratio/region_mean"] == pytest.approx(low + high)
    assert twice.metrics["loss"] != once["loss"]
    assert twice.metrics["steps/taken"] == 2.0


def test_a_truncated_completion_counts_as_failure_and_trains_only_what_was_sampled() -> None:
    group = make_group(random.Random(11), (1.0, 0.0, 0.0, 0.0))
    cut = dataclasses.replace(
        group, truncated=(False, True, False, False), rewards=(1.0, 1.0, 0.0, 0.0)
    )
    gradient, metrics = step_gradient([cut], PLAIN)
    expected, _ = step_gradient([group], PLAIN)
    assert torch.equal(gradient, expected)
    assert metrics["completions/clipped_ratio"] == 0.25
    assert metrics["tokens/local"] == sum(len(completion) for completion in group.completions)


def test_padding_that_equals_the_end_token_is_never_mistaken_for_it() -> None:
    groups = make_groups(12, 3)
    ended = [
        dataclasses.replace(
            group,
            prompt_ids=(0, *group.prompt_ids, 0),
            completions=tuple((*completion, 0) for completion in group.completions),
        )
        for group in groups
    ]
    gradient, metrics = step_gradient(ended, PLAIN)
    assert_close(gradient, naive_step(ended, 1.0)[0])
    assert metrics["tokens/local"] == sum(
        len(completion) for group in ended for completion in group.completions
    )


def test_a_step_raises_the_probability_of_success_and_the_state_survives_a_restart() -> None:
    groups = make_groups(13, 2)
    model = TinyLlama(0)
    trainer = Trainer(model, PLAIN, 1.0)
    winner = groups[0].completions[0]
    before = float(naive_logprobs(model, groups[0].prompt_ids, winner, 1.0).sum().detach())
    for _ in range(3):
        assert trainer.step(groups).stepped
    after = float(naive_logprobs(model, groups[0].prompt_ids, winner, 1.0).sum().detach())
    assert after > before

    twin = TinyLlama(0)
    twin.llama.load_state_dict(model.llama.state_dict())
    resumed = Trainer(twin, PLAIN, 1.0)
    resumed.load_state_dict(trainer.state_dict())
    trainer.step(groups)
    resumed.step(groups)
    assert torch.equal(twin.vector(), model.vector())
    assert resumed.steps == trainer.steps == 4


def test_a_long_gradient_is_scaled_down_to_the_clip_and_reported_as_it_was() -> None:
    groups = make_groups(14, 2)
    whole, unclipped = step_gradient(groups, PLAIN)
    model = TinyLlama(0)
    short = PLAIN.model_copy(update={"gradient_clip": 0.25})
    clipped, metrics = captured_step(Trainer(model, short, 1.0), model, groups)
    assert float(whole.norm()) > 0.25
    assert_close(clipped, whole * (0.25 / whole.norm()))
    assert metrics["grad_norm"] == pytest.approx(float(whole.norm()), rel=1e-5)
    assert metrics["grad_norm"] == pytest.approx(unclipped["grad_norm"])


def test_the_learning_rate_rises_linearly_over_the_warm_up() -> None:
    settings = Training(learning_rate=1e-3, warmup_steps=2)
    trainer = Trainer(TinyLlama(0), settings, 1.0)
    rates = [trainer.step(make_groups(15, 1)).metrics["learning_rate"] for _ in range(3)]
    assert rates == pytest.approx([5e-4, 1e-3, 1e-3])
