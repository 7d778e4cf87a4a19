"""Our pure functions and our whole step against TRL 1.16, the oracle of the `dev` extra.

TRL's loss is called unbound on a stand-in for its trainer that holds nothing but the settings it
reads; its forward is transformers' own, on left-padded prompts as TRL lays them out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest
import torch
from torch import Tensor
from trl import GRPOTrainer
from trl.trainer.utils import entropy_from_logits, nanstd, selective_log_softmax

from swarmnode.config.presets import Preset
from swarmnode.config.training import Training
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.advantages import group_advantages, mean_and_deviation
from swarmnode.training.batches import TrainingBatch
from swarmnode.training.corrections import off_policy_keep, truncated_importance_weights
from swarmnode.training.losses import TokenStatistics, clipped_loss, token_statistics
from swarmnode.training.objective import Fixed, batch_loss
from tests.unit.training_support import TinyLlama, captured_step, make_groups

TEMPERATURE = 0.7
SETTINGS = Training(warmup_steps=0, gradient_clip=1e9)


def accelerator() -> SimpleNamespace:
    return SimpleNamespace(
        num_processes=1,
        reduce=lambda value, reduction: value,
        gather=lambda value: value,
        sync_gradients=False,
    )


def stand_in(**changes: object) -> SimpleNamespace:
    """What `GRPOTrainer._compute_loss` reads of its trainer, with our defaults in TRL's words."""
    attributes: dict[str, object] = {
        "accelerator": accelerator(),
        "args": SimpleNamespace(delta=None, steps_per_generation=1, use_bias_correction_kl=False),
        "aux_loss_enabled": False,
        "beta": 0.0,
        "current_gradient_accumulation_steps": 1,
        "epsilon_high": SETTINGS.clip_high,
        "epsilon_low": SETTINGS.clip_low,
        "get_off_policy_mask": GRPOTrainer.get_off_policy_mask,
        "importance_sampling_level": "token",
        "loss_type": "dapo",
        "model": SimpleNamespace(training=True),
        "off_policy_mask_threshold": None,
        "top_entropy_quantile": 1.0,
        "use_vllm": False,
        "vllm_importance_sampling_correction": False,
        "_entropy_bonus_enabled": False,
        "_metrics": {"train": defaultdict(list)},
    }
    return SimpleNamespace(**attributes | changes)


def trl_loss(
    trainer: SimpleNamespace,
    logprobs: Tensor,
    inputs: dict[str, Tensor],
    entropies: Tensor | None = None,
) -> Tensor:
    """TRL's loss for log-probs (completions, tokens) that are given instead of computed."""
    given = torch.zeros_like(logprobs) if entropies is None else entropies
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (logprobs, given, None)
    mask = inputs["completion_mask"]
    empty = {
        "prompt_ids": torch.zeros(len(mask), 1, dtype=torch.long),
        "prompt_mask": torch.ones(len(mask), 1, dtype=torch.long),
        "completion_ids": torch.zeros_like(mask),
        "num_items_in_batch": mask.sum(),
    }
    loss: Tensor = GRPOTrainer._compute_loss(trainer, None, empty | inputs)
    return loss


@pytest.fixture
def tokens() -> dict[str, Tensor]:
    """Six completions of at most seven tokens: old, current and sampler log-probs, a mask."""
    generator = torch.Generator().manual_seed(4)
    old = -3.0 * torch.rand(6, 7, generator=generator)
    lengths = torch.tensor([7, 1, 4, 6, 3, 7])
    return {
        "old": old,
        "current": old + 0.5 * torch.randn(6, 7, generator=generator),
        "sampler": old
        + 0.8 * torch.randn(6, 7, generator=generator)
        + torch.tensor([[0.5], [-0.5]]).repeat(3, 1),
        "mask": (torch.arange(7) < lengths.unsqueeze(1)).long(),
        "advantages": torch.tensor([-0.9, -0.4, 1.3, 0.7, -1.1, -0.2]),
    }


@pytest.mark.parametrize("temperature", [1.0, TEMPERATURE])
def test_logprobs_and_entropies_are_trls(temperature: float) -> None:
    logits = 4.0 * torch.randn(12, 50, generator=torch.Generator().manual_seed(1))
    targets = torch.randint(50, (12,), generator=torch.Generator().manual_seed(2))
    ours = token_statistics(logits, torch.arange(12), targets, temperature)
    torch.testing.assert_close(
        ours.logprobs, selective_log_softmax(logits, targets, temperature), rtol=1e-5, atol=1e-6
    )
    torch.testing.assert_close(ours.entropies, entropy_from_logits(logits / temperature))


def test_deviations_and_advantages_are_trls_for_live_groups() -> None:
    rewards = torch.tensor(
        [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, float("nan")], [0.2, 0.9, float("nan"), 0.1]]
    )
    _, deviation = mean_and_deviation(rewards)
    trl_deviation = nanstd(rewards, dim=1, keepdim=True)
    torch.testing.assert_close(deviation, trl_deviation)
    centred = rewards - rewards.nanmean(dim=1, keepdim=True)
    expected = (centred / (trl_deviation + 1e-4)).nan_to_num(nan=0.0)
    torch.testing.assert_close(group_advantages(rewards), expected)


def test_the_clipped_loss_its_gradient_and_its_clip_ratios_are_trls(
    tokens: dict[str, Tensor],
) -> None:
    mask, chosen = tokens["mask"], tokens["mask"].bool()
    current = tokens["current"].clone().requires_grad_()
    trainer = stand_in()
    inputs = {
        "completion_mask": mask,
        "advantages": tokens["advantages"],
        "old_per_token_logps": tokens["old"],
    }
    theirs = trl_loss(trainer, current, inputs)
    theirs.backward()  # type: ignore[no-untyped-call]
    ours = tokens["current"][chosen].clone().requires_grad_()
    advantages = tokens["advantages"].unsqueeze(1).expand(-1, 7)[chosen]
    result = clipped_loss(
        ours - tokens["old"][chosen], advantages, SETTINGS.clip_low, SETTINGS.clip_high
    )
    loss = result.losses.mean()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, theirs)
    assert current.grad is not None
    torch.testing.assert_close(ours.grad, current.grad[chosen])
    metrics = trainer._metrics["train"]
    low, high = result.low_clipped.float().mean(), result.high_clipped.float().mean()
    assert metrics["clip_ratio/low_mean"] == [pytest.approx(float(low))]
    assert metrics["clip_ratio/high_mean"] == [pytest.approx(float(high))]
    assert low > 0.0
    assert high > 0.0


def test_importance_weights_and_the_off_policy_mask_enter_the_loss_as_in_trl(
    tokens: dict[str, Tensor],
) -> None:
    mask, chosen = tokens["mask"], tokens["mask"].bool()
    # TRL's mask looks at the current policy, ours at the old one, as it is before the first step.
    old, sampler = tokens["old"][chosen], tokens["sampler"][chosen]
    advantages = tokens["advantages"].unsqueeze(1).expand(-1, 7)[chosen]
    completion = torch.arange(6).unsqueeze(1).expand(-1, 7)[chosen]
    keep = off_policy_keep(advantages, old, sampler, completion, 0.1)
    kept = GRPOTrainer.get_off_policy_mask(
        tokens["advantages"].unsqueeze(1), tokens["old"], tokens["sampler"], mask, 0.1
    )
    assert torch.equal(keep, kept.expand(-1, 7)[chosen].bool())
    assert 0 < int(keep.sum()) < len(keep)

    weights = truncated_importance_weights(old, sampler, 2.0)
    padded = torch.ones(6, 7).masked_scatter(chosen, weights)
    trainer = stand_in(
        use_vllm=True, vllm_importance_sampling_correction=True, off_policy_mask_threshold=0.1
    )
    inputs = {
        "completion_mask": mask,
        "advantages": tokens["advantages"],
        "old_per_token_logps": tokens["old"],
        "sampling_per_token_logps": tokens["sampler"],
        "importance_sampling_ratio": padded,
    }
    theirs = trl_loss(trainer, tokens["old"], inputs)
    result = clipped_loss(0.0 * old, advantages, SETTINGS.clip_low, SETTINGS.clip_high)
    # TRL leaves dropped tokens in the denominator; our step divides by the kept ones alone.
    torch.testing.assert_close((result.losses * weights * keep).mean(), theirs)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_a_ratio_against_the_sampler_is_trls_with_the_samplers_for_the_old_log_probs(
    tokens: dict[str, Tensor], level: Literal["token", "sequence"]
) -> None:
    # TRL's asynchronous trainer has no other: the engine's log-probs are its old ones.
    chosen = tokens["mask"].bool()
    preset: Preset = "gspo" if level == "sequence" else "default"
    asked = Training(ratio_denominator="sampler", preset=preset, normalization="tokens")
    current = tokens["current"].clone().requires_grad_()
    trainer = stand_in(
        importance_sampling_level=level,
        epsilon_low=asked.clip_low,
        epsilon_high=asked.clip_high,
    )
    inputs = {
        "completion_mask": tokens["mask"],
        "advantages": tokens["advantages"],
        "old_per_token_logps": tokens["sampler"],
    }
    theirs = trl_loss(trainer, current, inputs)
    theirs.backward()  # type: ignore[no-untyped-call]

    completions = torch.arange(6).unsqueeze(1).expand(-1, 7)[chosen]
    none = torch.zeros(len(completions), dtype=torch.bool)
    batch = SimpleNamespace(
        packed=SimpleNamespace(completion_of_token=completions),
        advantages=tokens["advantages"][completions],
        sampler_logprobs=tokens["sampler"][chosen],
        external=none,
        weighted=none,
        gated=none,
        shaped=none,
        levels=frozenset({"none"}),
    )
    ours = tokens["current"][chosen].clone().requires_grad_()
    found = batch_loss(
        cast("TrainingBatch", batch),
        TokenStatistics(ours, torch.zeros_like(ours)),
        Fixed(tokens["old"][chosen], None, None),
        asked,
        longest=7,
    )
    loss = found.losses.sum() / found.shares.sum()
    loss.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss, theirs)
    assert current.grad is not None
    torch.testing.assert_close(ours.grad, current.grad[chosen])
    clipped = int(found.policy.low_clipped.sum() + found.policy.high_clipped.sum())
    assert 0 < clipped < len(ours)


def trl_inputs(groups: Sequence[TrainingGroup]) -> dict[str, Tensor]:
    """TRL's layout: prompts padded on the left, completions on the right."""
    rows = [(group.prompt_ids, one) for group in groups for one in group.completions]
    prompt = max(len(ids) for ids, _ in rows)
    completion = max(len(ids) for _, ids in rows)
    advantages = [group_advantages(torch.tensor([group.rewards])).flatten() for group in groups]
    masks = [([0] * (prompt - len(a)) + [1] * len(a), [1] * len(b)) for a, b in rows]
    mask = torch.tensor([b + [0] * (completion - len(b)) for _, b in masks])
    return {
        "prompt_ids": torch.tensor([[0] * (prompt - len(a)) + list(a) for a, _ in rows]),
        "prompt_mask": torch.tensor([a for a, _ in masks]),
        "completion_ids": torch.tensor([list(b) + [0] * (completion - len(b)) for _, b in rows]),
        "completion_mask": mask,
        "advantages": torch.cat(advantages),
        "num_items_in_batch": mask.sum(),
    }


def test_a_whole_step_has_the_loss_entropy_and_gradient_of_trls() -> None:
    groups = make_groups(21, 4)
    model = TinyLlama(0)

    def logprobs_and_entropies(
        _: object, input_ids: Tensor, attention_mask: Tensor, logits_to_keep: int, **__: Any
    ) -> tuple[Tensor, Tensor, None]:
        positions = (attention_mask.cumsum(1) - 1).clamp(min=0)
        logits = model.llama(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=positions
        ).logits[:, -logits_to_keep - 1 : -1]
        targets = input_ids[:, -logits_to_keep:]
        logprobs = selective_log_softmax(logits, targets, TEMPERATURE)
        return logprobs, entropy_from_logits(logits.detach() / TEMPERATURE), None

    trainer = stand_in(_get_per_token_logps_and_entropies=logprobs_and_entropies)
    loss = GRPOTrainer._compute_loss(trainer, None, trl_inputs(groups))
    loss.backward()
    theirs = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])

    fresh = TinyLlama(0)
    ours, metrics = captured_step(Trainer(fresh, SETTINGS, TEMPERATURE), fresh, groups)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    assert metrics["loss"] == pytest.approx(float(loss.detach()), abs=1e-5)
    entropy = trainer._metrics["train"]["entropy"]
    assert entropy == [pytest.approx(metrics["entropy"], rel=1e-5)]
