"""The 23 faults that other GRPO trainers had, each with a test that fails where it is put back.

The numbers and the issues are those of docs/losses.md, "Faults that are tested against".
"""

from __future__ import annotations

import copy
import dataclasses
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_utils import PreTrainedModel

from swarmnode.config.policy import PolicySettings
from swarmnode.config.training import Training
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.decoder import Decoder
from swarmnode.policy.engine import NativeEngine, choose_engine
from swarmnode.policy.forwards import NativeForward, TrainingForward
from swarmnode.policy.hf_forward import HuggingFaceForward
from swarmnode.policy.loading import load_policy
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.advantages import group_advantages, live_groups, reward_matrix
from swarmnode.training.corrections import (
    off_policy_keep,
    picked_correction,
    truncated_importance_weights,
)
from swarmnode.training.logprobs import chunked_statistics
from swarmnode.training.losses import clipped_loss, reference_divergence, token_statistics
from swarmnode.training.packing import TreeRow, pack
from tests.unit.policy_models import small_model
from tests.unit.resume_support import PROMPTS, order
from tests.unit.training_support import (
    TinyLlama,
    VersatileLlama,
    captured_step,
    make_group,
    make_groups,
    naive_logprobs,
    step_gradient,
)

CPU = torch.device("cpu")
PLAIN = Training(warmup_steps=0)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def packed_logprobs(model: Any, rows: Sequence[TreeRow], temperature: float = 1.0) -> Tensor:
    """Log-probs of all trained tokens of one batch, through the public parts of a step."""
    packed = pack(rows, CPU)
    hidden = model.tree_hidden(packed.token_ids, packed.positions, packed.segments)
    logits = model.head(hidden.flatten(0, 1)[packed.predictors])
    return token_statistics(logits, packed.predictor_of_token, packed.targets, temperature).logprobs


def unlike_groups() -> list[TrainingGroup]:
    """One group of short completions, one of long ones, so that means of means differ."""
    generator = random.Random(70)
    short = make_group(generator, (1.0, 0.0, 0.0, 0.0), prompt=4)
    long = make_group(generator, (1.0, 1.0, 0.0), prompt=9)
    return [
        dataclasses.replace(short, completions=tuple(one[:1] for one in short.completions)),
        dataclasses.replace(long, completions=tuple((*one, *one) for one in long.completions)),
    ]


def test_fault_01_gradient_accumulation_scales_like_one_batch() -> None:
    groups = unlike_groups()
    whole, metrics = step_gradient(groups, PLAIN)
    single, split = step_gradient(groups, PLAIN.model_copy(update={"micro_batch_tokens": 1}))
    torch.testing.assert_close(single, whole, rtol=1e-5, atol=1e-6)
    assert split["loss"] == pytest.approx(metrics["loss"], rel=1e-5)


def test_fault_02_the_token_mean_is_the_rounds_not_the_micro_batchs() -> None:
    groups = unlike_groups()
    _, metrics = step_gradient(groups, PLAIN.model_copy(update={"micro_batch_tokens": 1}))
    # At ratio 1 a token's loss is minus its advantage: the mean over all tokens of the round.
    advantages = group_advantages(reward_matrix(groups)).tolist()
    weighted = [
        (-advantage, len(ids))
        for group, values in zip(groups, advantages, strict=True)
        for advantage, ids in zip(values, group.completions, strict=False)
    ]
    tokens = sum(length for _, length in weighted)
    expected = sum(value * length for value, length in weighted) / tokens
    assert metrics["loss"] == pytest.approx(expected, abs=1e-6)
    whole, _ = step_gradient(groups, PLAIN)
    for changed in (groups[::-1], groups):
        alone = PLAIN.model_copy(update={"micro_batch_tokens": 1})
        assert_close(step_gradient(changed, alone)[0], whole)


def test_fault_03_dr_grpos_divisor_is_constant_whatever_the_micro_batch_or_the_width() -> None:
    groups = unlike_groups()
    found = []
    for budget in (1, 8192):
        settings = Training.model_validate({"preset": "dr_grpo", "micro_batch_tokens": budget})
        metrics = Trainer(TinyLlama(0), settings, 1.0, longest=40).step(groups).metrics
        found.append(metrics["loss"])
    # Advantages are rewards minus their mean: the loss is a plain sum over 7 completions x 40.
    expected = sum(
        -(reward - sum(group.rewards) / len(group.rewards)) * len(ids)
        for group in groups
        for reward, ids in zip(group.rewards, group.completions, strict=True)
    )
    assert found == pytest.approx([expected / (7 * 40)] * 2, rel=1e-5)


def test_fault_04_masked_truncated_tokens_are_out_of_numerator_and_denominator() -> None:
    settings = PLAIN.model_copy(update={"mask_truncated": True})
    group = make_group(random.Random(71), (1.0, 0.0, 0.0, 0.0))
    cut = dataclasses.replace(group, truncated=(False, True, False, False))
    gradient, metrics = step_gradient([cut], settings)
    excluded, _ = step_gradient([dataclasses.replace(group, excluded=frozenset([1]))], PLAIN)
    assert_close(gradient, excluded)
    assert metrics["tokens/local"] == sum(len(group.completions[one]) for one in (0, 2, 3))
    everything = dataclasses.replace(
        group, truncated=(True,) * 4, further_channels={"length": group.rewards}
    )
    report = Trainer(TinyLlama(0), settings, 1.0).step([everything])
    assert not report.stepped
    assert all(math.isfinite(value) for value in report.metrics.values())


def forward_of(family: str) -> tuple[PreTrainedModel, TrainingForward]:
    """A small model, and the forward that trains it."""
    module = small_model(family)
    if family == "gpt2":
        return module, HuggingFaceForward(module)
    return module, NativeForward(Decoder(module))


def unlike_rows(generator: random.Random) -> list[TreeRow]:
    """Two rows of which one is far shorter than the other."""
    return [
        TreeRow(
            tuple(generator.randrange(2, 50) for _ in range(length)),
            tuple(tuple(generator.randrange(2, 50) for _ in range(n)) for n in (4, 2)),
        )
        for length in (3, 17)
    ]


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_fault_05_padding_changes_no_log_prob_in_training_nor_in_sampling(family: str) -> None:
    module, forward = forward_of(family)
    rows = unlike_rows(random.Random(72))
    alone = torch.cat([packed_logprobs(forward, [row]) for row in rows])
    assert_close(packed_logprobs(forward, rows), alone)
    # One batch of prompts of unlike lengths is padded, too: on the left by transformers' loop.
    for engine in ("hf", "auto"):
        sampled = choose_engine(module, engine).sample(
            [row.prompt_ids for row in rows], 2, 5, 1.0, (), torch.Generator().manual_seed(0)
        )
        for row, group in zip(rows, sampled, strict=True):
            said = TreeRow(row.prompt_ids, tuple(one.token_ids for one in group))
            known = torch.tensor([value for one in group for value in one.logprobs])
            assert_close(known, packed_logprobs(forward, [said]).detach())


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_fault_06_positions_begin_with_the_prompt_also_for_absolute_ones(family: str) -> None:
    module, forward = forward_of(family)
    rows = unlike_rows(random.Random(73))
    expected = []
    for row in rows:
        for completion in row.completions:
            ids = torch.tensor([[*row.prompt_ids, *completion]])
            logits = module(input_ids=ids).logits[0, len(row.prompt_ids) - 1 : -1]
            expected.append(logits.log_softmax(-1)[range(len(completion)), list(completion)])
    assert_close(packed_logprobs(forward, rows), torch.cat(expected))


def test_fault_07_an_end_token_that_is_the_padding_token_is_trained_on() -> None:
    group = make_group(random.Random(74), (1.0, 0.0))
    ended = dataclasses.replace(group, completions=((5, 0), (7, 8, 0)))
    gradient, metrics = step_gradient([ended], PLAIN)
    assert metrics["tokens/local"] == 5.0
    cut = dataclasses.replace(group, completions=((5,), (7, 8)))
    assert float((gradient - step_gradient([cut], PLAIN)[0]).abs().max()) > 1e-4


def test_fault_08_every_one_of_several_end_tokens_ends_a_completion() -> None:
    module = small_model("llama")
    with torch.no_grad():
        # Both end tokens are near certain from the start, whatever stands before.
        module.lm_head.weight.mul_(1e-3)
    engine = NativeEngine(Decoder(module))
    ends = tuple(range(2, 50))
    (rows,) = engine.sample([[3, 4]], 16, 6, 1.0, ends, torch.Generator().manual_seed(1))
    stopped = [row for row in rows if row.stopped]
    assert len({row.token_ids[-1] for row in stopped}) > 1
    for row in stopped:
        assert row.token_ids[-1] in ends
        assert not set(row.token_ids[:-1]) & set(ends)
    group = TrainingGroup(
        prompt_ids=(3, 4),
        completions=tuple(row.token_ids for row in stopped),
        truncated=tuple(not row.stopped for row in stopped),
        rewards=tuple(float(index % 2) for index in range(len(stopped))),
        source="local",
        task="counting",
    )
    metrics = Trainer(TinyLlama(0), PLAIN, 1.0).step([group]).metrics
    assert metrics["completions/clipped_ratio"] == 0.0


def sampled(policy: Any, temperature: float) -> TrainingGroup:
    """A group as the policy samples it, made live."""
    (completions,) = policy.generate(["7 + 5 ="], 6, 8, temperature, torch.Generator())
    return TrainingGroup(
        prompt_ids=tuple(policy.encode_prompt("7 + 5 =")),
        completions=tuple(one.token_ids for one in completions),
        truncated=(False,) * 6,
        rewards=(1.0, 0.0) * 3,
        source="local",
        task="counting",
        sampler_logprobs=tuple(one.logprobs for one in completions),
    )


def test_fault_09_training_takes_log_probs_at_the_samplers_temperature() -> None:
    policy = load_policy(PolicySettings(), seed=2)
    group = sampled(policy, 0.6)
    report = Trainer(copy.deepcopy(policy), PLAIN, 0.6).step([group])
    assert report.metrics["sampling/sampling_logp_difference/max"] < 1e-4
    other = Trainer(policy, PLAIN, 1.0).step([group])
    assert other.metrics["sampling/sampling_logp_difference/max"] > 1e-3


def test_fault_10_log_probs_of_a_part_of_the_distribution_gain_nothing() -> None:
    # Of top-p 0.5 every log-prob is too high by up to log 2: no weight rises by that, and failures
    # that look likelier to the sampler than to us by more than the threshold are dropped.
    old = torch.tensor([-1.0, -2.0, -0.5])
    renormalised = (old + math.log(2.0)).clamp(max=0.0)
    assert bool((truncated_importance_weights(old, renormalised, 2.0) <= 1.0).all())
    kept = off_policy_keep(-torch.ones(3), old, renormalised, torch.zeros(3).long(), 0.5)
    assert not bool(kept.any())
    # A sampler that claims next to nothing gains the cap and no more, for either sign.
    lying = truncated_importance_weights(old, old - 30.0, 2.0)
    assert lying.tolist() == [2.0] * 3


def test_fault_11_training_and_sampling_see_one_deterministic_policy() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=61,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        attention_dropout=0.5,
        initializer_range=0.2,
        attn_implementation="sdpa",
    )
    model = TinyLlama(0)
    model.llama = LlamaForCausalLM(config).eval()
    groups = make_groups(75, 2)
    known = [
        dataclasses.replace(
            group,
            sampler_logprobs=tuple(
                tuple(naive_logprobs(model, group.prompt_ids, ids, 1.0).clamp(max=0.0).tolist())
                for ids in group.completions
            ),
        )
        for group in groups
    ]
    metrics = Trainer(model, PLAIN, 1.0).step(known).metrics
    assert metrics["sampling/sampling_logp_difference/max"] < 1e-4
    assert not model.llama.training
    assert not load_policy(PolicySettings(), seed=1).model.training


def test_fault_12_unscored_completions_move_no_baseline_and_make_no_nan() -> None:
    nan = math.nan
    rewards = torch.tensor([[1.0, 0.0, nan], [nan, nan, nan], [nan, 1.0, nan], [0.5, 1.0, 0.0]])
    values = group_advantages(rewards)
    assert bool(values.isfinite().all())
    assert values[0, 0] == -values[0, 1] > 0.5
    assert values[1:3].abs().max() == 0.0
    assert values[0, 2] == 0.0


def test_fault_13_equal_rewards_give_exactly_zero_whatever_the_rounding() -> None:
    rewards = torch.full((1, 8), 0.1)
    assert group_advantages(rewards).abs().max() == 0.0
    nearly = rewards + torch.tensor([3e-8, 0.0] * 4)
    assert not bool(live_groups(nearly).any())
    assert group_advantages(nearly).abs().max() == 0.0


def test_fault_14_dead_groups_change_neither_scale_nor_gradient_with_a_reference() -> None:
    settings = PLAIN.model_copy(update={"kl_weight": 0.5, "gradient_clip": 1e9})
    groups = make_groups(76, 2)
    dead = make_group(random.Random(77), [1.0] * 6)
    found = []
    for given in (groups, [dead, *groups, dead]):
        model = VersatileLlama(0)
        with torch.no_grad():
            model.llama.model.layers[0].mlp.up_proj.weight.add_(0.05)
        gradient, metrics = captured_step(Trainer(model, settings, 1.0), model, given)
        assert metrics["kl"] > 0.0
        found.append(gradient)
    assert_close(found[1], found[0])


def test_fault_15_log_probs_of_a_bfloat16_model_are_taken_in_float32() -> None:
    model = TinyLlama(0)
    model.llama = model.llama.bfloat16()
    embedding, head = model.llama.model.embed_tokens.weight, model.llama.lm_head.weight
    logits = 3.0 * torch.randn(4, 61, generator=torch.Generator().manual_seed(1)).bfloat16()
    tokens = token_statistics(logits, torch.arange(4), torch.arange(4), 0.7)
    assert tokens.logprobs.dtype == torch.float32
    exact = (logits.double() / 0.7).log_softmax(-1)[torch.arange(4), torch.arange(4)]
    torch.testing.assert_close(tokens.logprobs.double(), exact, rtol=1e-6, atol=1e-6)

    class Narrow(TinyLlama):
        """With masks of the model's own type, as transformers wants them."""

        def tree_hidden(self, token_ids: Tensor, positions: Tensor, segments: Tensor) -> Tensor:
            hidden: Tensor = model.llama.model(
                input_ids=token_ids, position_ids=positions
            ).last_hidden_state
            return hidden

    narrow = Narrow(0)
    narrow.llama = model.llama
    report = Trainer(narrow, PLAIN, 1.0).step(make_groups(78, 1))
    assert report.stepped
    assert embedding is head is model.llama.lm_head.weight
    assert {one.dtype for one in narrow.parameters()} == {torch.bfloat16}


def test_fault_16_the_old_policy_is_frozen_once_a_round_so_that_the_clip_acts() -> None:
    settings = PLAIN.model_copy(update={"inner_steps": 4, "learning_rate": 3e-2})
    metrics = Trainer(TinyLlama(0), settings, 1.0).step(make_groups(79, 3)).metrics
    assert metrics["clip_ratio/region_mean"] > 0.05
    ratio = torch.tensor([0.5, 2.0]).log()
    clipped = clipped_loss(ratio, torch.tensor([-1.0, 1.0]), 0.2, 0.28)
    assert bool((clipped.low_clipped | clipped.high_clipped).all())


@pytest.mark.parametrize("change", [-1, 1])
def test_fault_17_log_probs_that_do_not_fit_the_tokens_are_never_used(change: int) -> None:
    group = make_group(random.Random(80), (1.0, 0.0), "external")
    fitting = tuple((-1.0,) * len(ids) for ids in group.completions)
    weighted = Training(external_advantage="weighted")
    known = dataclasses.replace(group, sampler_logprobs=fitting)
    assert picked_correction(known, weighted).level == "full"
    longer = (fitting[0], (-1.0,) * (len(fitting[1]) + change))
    unfit = dataclasses.replace(group, sampler_logprobs=longer)
    assert picked_correction(unfit, weighted).level != "full"
    with pytest.raises(ValueError, match="log-probs"):
        dataclasses.replace(group, sampler_logprobs=fitting[:1])


def test_fault_18_what_was_sampled_is_what_is_trained_on_through_the_public_path() -> None:
    host = HostedPolicy(order(external_advantage="both", learning_rate=1e-4))
    groups = host.generate(PROMPTS, 4)
    for group in groups:
        # An untrained policy ends hardly ever: let the first count as ended, and be a success.
        group[0][1] = "stop"
    described = [
        {
            "prompt": prompt,
            "task": "counting",
            "source": "local",
            "rewards": [1.0, 0.0, 0.0, 1.0],
            "same_tokenizer": True,
            "origin": "",
            "total_logprobs": [None] * 4,
            "excluded": [],
            "completions": group,
        }
        for prompt, group in zip(PROMPTS, groups, strict=True)
    ]
    metrics = host.train(described)["metrics"]
    lengths = [len(ids) for group in groups for _, _, ids, _ in group]
    cut = sum(reason == "length" for group in groups for _, reason, _, _ in group)
    assert metrics["groups/live_local"] == len(PROMPTS)
    assert metrics["tokens/local"] == sum(lengths)
    assert metrics["completions/mean_length"] == pytest.approx(sum(lengths) / len(lengths))
    assert metrics["completions/clipped_ratio"] == pytest.approx(cut / len(lengths))
    assert metrics["sampling/sampling_logp_difference/max"] < 1e-4


def test_fault_19_the_divergence_is_minimised_and_counted_once() -> None:
    groups = make_groups(81, 2)
    gradients = {}
    for weight in (0.0, 1.0, 2.0):
        model = VersatileLlama(0)
        with torch.no_grad():
            model.llama.model.layers[0].mlp.up_proj.weight.add_(0.05)
        settings = PLAIN.model_copy(update={"kl_weight": weight, "gradient_clip": 1e9})
        gradients[weight], _ = captured_step(Trainer(model, settings, 1.0), model, groups)
    assert_close(gradients[2.0] - gradients[1.0], gradients[1.0] - gradients[0.0])
    model = VersatileLlama(0)
    with torch.no_grad():
        model.llama.model.layers[0].mlp.up_proj.weight.add_(0.05)
    rows = [TreeRow(group.prompt_ids, group.completions) for group in groups]
    logprobs = packed_logprobs(model, rows)
    with model.reference(), torch.no_grad():
        reference = packed_logprobs(model, rows)
    reference_divergence(logprobs, reference).mean().backward()  # type: ignore[no-untyped-call]
    expected = torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])
    torch.testing.assert_close(gradients[1.0] - gradients[0.0], expected, rtol=1e-3, atol=1e-5)


def test_fault_20_every_token_is_predicted_from_the_place_before_it() -> None:
    group = make_group(random.Random(82))
    model = TinyLlama(0)
    brute = [naive_logprobs(model, group.prompt_ids, ids, 1.0) for ids in group.completions]
    found = packed_logprobs(model, [TreeRow(group.prompt_ids, group.completions)])
    assert_close(found, torch.cat(brute))


def test_fault_21_shapes_stay_few_where_each_is_compiled() -> None:
    forward = NativeForward(Decoder(small_model("llama")), length_multiple=64)
    lengths, heads = set(), set()

    def head(hidden: Tensor) -> Tensor:
        heads.add(tuple(hidden.shape))
        return forward.head(hidden)

    generator = random.Random(83)
    with torch.no_grad():
        for _ in range(100):
            prompt = tuple(generator.randrange(50) for _ in range(generator.randint(1, 60)))
            ids = tuple(generator.randrange(50) for _ in range(generator.randint(2, 60)))
            packed = pack([TreeRow(prompt, (ids,))], CPU)
            hidden = forward.tree_hidden(packed.token_ids, packed.positions, packed.segments)
            # What is given back is a view into what was computed.
            lengths.add(hidden.untyped_storage().nbytes())
            chunked_statistics(
                head, hidden.flatten(0, 1)[packed.predictors], packed, 1.0, 50, rows_multiple=64
            )
    assert len(lengths) <= 2
    assert len(heads) == 1


def test_fault_22_groups_of_any_sizes_train_together() -> None:
    generator = random.Random(84)
    groups = [make_group(generator, rewards) for rewards in ([1.0, 0.0], [1.0] + [0.0] * 6, [1.0])]
    gradient, metrics = step_gradient(groups, PLAIN)
    assert bool(gradient.isfinite().all())
    assert metrics["groups/live_local"] == 2.0
    assert metrics["groups/dead_local"] == 1.0
    assert metrics["tokens/local"] == sum(
        len(ids) for group in groups[:2] for ids in group.completions
    )


@pytest.mark.parametrize("bound", [{"ratio_cap": 0.28}, {"clip_high": 0.2, "ratio_cap": 5.0}, {}])
def test_fault_23_cispos_bound_is_one_on_the_ratio_itself(bound: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        Training.model_validate({"objective": "cispo", **bound})
    assert Training(preset="cispo").ratio_cap == 5.0
