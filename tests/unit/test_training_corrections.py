"""Corrections for what another policy sampled: their figures, and which of them a group gets."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from swarmnode.config.training import Correction, Training
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.corrections import (
    band_keep,
    effective_sample_share,
    gate,
    picked_correction,
    shaped_loss,
)
from swarmnode.training.records import gradient_shares, lost_advantages
from tests.unit.test_training_external import with_sampler
from tests.unit.training_support import (
    TinyLlama,
    make_group,
    make_groups,
    naive_logprobs,
    step_gradient,
)

NAN = math.nan


def settings(**changes: Any) -> Training:
    return Training.model_validate({"warmup_steps": 0, "gradient_clip": 1e9, **changes})


def with_totals(group: TrainingGroup, per_token: float) -> TrainingGroup:
    """Totals of a sampler that finds each token `per_token` nats likelier than TinyLlama(0)."""
    model = TinyLlama(0)
    totals = tuple(
        float(naive_logprobs(model, group.prompt_ids, ids, 1.0).sum().detach())
        + per_token * len(ids)
        for ids in group.completions
    )
    return dataclasses.replace(group, total_logprobs=totals)


@pytest.mark.parametrize(
    ("correction", "kept"),
    [
        ("truncate", [True] * 6),
        ("icepop", [True, False, True, False, True, True]),
        # Geometric means: exp(0.17) of the first three tokens, exp(-0.8) of the next two.
        ("sequence_mask", [True, True, True, False, False, True]),
    ],
)
def test_a_band_leaves_out_tokens_or_completions(correction: Correction, kept: list[bool]) -> None:
    old = torch.zeros(6)
    sampler = -torch.tensor([0.2, 0.9, -0.6, -1.0, -0.6, NAN])
    completions = torch.tensor([0, 0, 0, 1, 1, 2])
    found = band_keep(old, sampler, completions, (0.5, 2.0), correction)
    assert found.tolist() == kept


def test_the_gate_compares_per_token_of_ours_and_caps_what_it_gives() -> None:
    completions = torch.tensor([0, 0, 1, 2, 2, 3])
    old = torch.tensor([-1.0, -2.0, -1.0, -1.0, -1.0, -1.0])
    totals = torch.tensor([-4.0, -4.0, -0.5, -9.0, -9.0, NAN])
    weights, keep = gate(old, totals, completions, width=1.0, cap=1.5)
    # d = (-3 + 4) / 2 = 0.5, capped; -0.5; (-2 + 9) / 2 = 3.5, out; unknown.
    expected = torch.tensor([1.5, 1.5, math.exp(-0.5), 1.5, 1.5, 1.0])
    torch.testing.assert_close(weights, expected)
    assert keep.tolist() == [True, True, True, False, False, True]


@pytest.mark.parametrize("advantage", [2.0, -2.0])
def test_a_shaped_gradient_is_bounded_and_vanishes_where_the_policy_is_sure(
    advantage: float,
) -> None:
    logprobs = torch.tensor([-50.0, math.log(0.1), 0.0]).requires_grad_()
    shaped_loss(logprobs, torch.full((3,), advantage), 0.1).sum().backward()  # type: ignore[no-untyped-call]
    gamma = 0.1
    expected = [-advantage * gamma * p / (p + gamma) ** 2 for p in (math.exp(-50.0), 0.1, 1.0)]
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx(expected)
    assert float(logprobs.grad.abs().max()) == pytest.approx(abs(advantage) / 4)


def test_the_effective_sample_share_is_one_for_equal_weights_and_falls_with_their_spread() -> None:
    assert float(effective_sample_share(torch.full((8,), 0.3))) == pytest.approx(1.0)
    one_decides = torch.tensor([1.0] + [0.0] * 9)
    assert float(effective_sample_share(one_decides)) == pytest.approx(0.1)


def test_gradient_shares_are_by_peer_and_add_up() -> None:
    shares = gradient_shares(torch.tensor([1.0, 2.0, 3.0, 4.0]), torch.tensor([0.0, 1.0, 2.0, 2.0]))
    assert float(shares["external_gradient_share"]) == pytest.approx(0.9)
    assert float(shares["external_gradient_share/largest_peer"]) == pytest.approx(0.7)
    own = gradient_shares(torch.ones(3), torch.zeros(3))
    assert {float(value) for value in own.values()} == {0.0}
    assert gradient_shares(torch.zeros(3), torch.ones(3)) == {}


def known(group: TrainingGroup, tokens: bool, totals: bool) -> TrainingGroup:
    return dataclasses.replace(
        group,
        sampler_logprobs=tuple((-1.0,) * len(ids) for ids in group.completions) if tokens else None,
        total_logprobs=tuple(-2.0 for _ in group.completions) if totals else None,
    )


@pytest.mark.parametrize(
    ("tokens", "totals", "fallback", "level"),
    [
        (True, True, "positive", "full"),
        (True, False, "positive", "full"),
        (False, True, "positive", "gate"),
        (False, False, "positive", "positive"),
        (False, False, "shaped", "shaped"),
        (False, False, "both", "none"),
        (False, False, "off", "off"),
    ],
)
def test_the_level_is_the_best_that_the_metadata_allows(
    tokens: bool, totals: bool, fallback: str, level: str
) -> None:
    group = known(make_group(random.Random(1), source="external"), tokens, totals)
    weighted = settings(external_advantage="weighted", external_fallback=fallback)
    assert picked_correction(group, weighted).level == level
    metrics = Trainer(TinyLlama(0), weighted, 1.0).step([group, *make_groups(2, 1)]).metrics
    counted = {name: value for name, value in metrics.items() if name.startswith("corrections/")}
    assert counted.pop(f"corrections/{level}", 1.0) == 1.0
    assert set(counted.values()) <= {0.0}


@pytest.mark.parametrize("lie", [0.1, NAN, math.inf, -math.inf, None])
def test_a_total_that_cannot_be_true_demotes_its_group(lie: float | None) -> None:
    group = known(make_group(random.Random(1), source="external"), tokens=False, totals=True)
    assert group.total_logprobs is not None
    lying = dataclasses.replace(group, total_logprobs=(*group.total_logprobs[:-1], lie))
    assert picked_correction(lying, settings(external_advantage="weighted")).level == "positive"


def test_one_unfit_completion_demotes_its_whole_group() -> None:
    group = known(make_group(random.Random(1), source="external"), tokens=True, totals=True)
    assert group.sampler_logprobs is not None
    last = group.sampler_logprobs[-1]
    assert last is not None
    short = (*group.sampler_logprobs[:-1], (*last, -1.0))
    misfit = dataclasses.replace(group, sampler_logprobs=short)
    assert picked_correction(misfit, settings(external_advantage="weighted")).level == "gate"


@pytest.mark.parametrize(("per_token", "factor"), [(0.4, math.exp(-0.4)), (-0.9, 2.0)])
def test_behind_the_gate_a_group_counts_by_its_mean_difference_up_to_the_cap(
    per_token: float, factor: float
) -> None:
    group = make_groups(3, 1, "external")[0]
    both, _ = step_gradient([group], settings(external_advantage="both"))
    gated, metrics = step_gradient(
        [with_totals(group, per_token)], settings(external_advantage="weighted")
    )
    torch.testing.assert_close(gated, factor * both, rtol=1e-3, atol=1e-5)
    assert metrics["corrections/gate"] == 1.0
    assert metrics["sampling/importance_sampling_ratio/max"] == pytest.approx(factor, rel=1e-3)


def test_outside_the_gate_a_group_counts_for_nothing() -> None:
    own, group = make_groups(4, 2), with_totals(make_groups(5, 1, "external")[0], 1.2)
    chosen = settings(external_advantage="weighted")
    gradient, metrics = step_gradient([*own, group], chosen)
    torch.testing.assert_close(gradient, step_gradient(own, chosen)[0], rtol=1e-4, atol=1e-6)
    assert metrics["tokens/off_policy_dropped"] == sum(len(ids) for ids in group.completions)


def shaped_reference(group: TrainingGroup) -> Tensor:
    """-A p / (p + 0.1) summed by hand, over its tokens."""
    model = TinyLlama(0)
    rewards = torch.tensor(group.rewards)
    total = torch.zeros(())
    for ids, advantage in zip(
        group.completions, (rewards - rewards.mean()) / (rewards.std() + 1e-4), strict=True
    ):
        p = naive_logprobs(model, group.prompt_ids, ids, 1.0).exp()
        total = total - advantage * (p / (p + 0.1)).sum()
    (total / sum(len(ids) for ids in group.completions)).backward()  # type: ignore[no-untyped-call]
    return torch.cat([one.grad.flatten() for one in model.parameters() if one.grad is not None])


def test_shaped_trains_on_both_signs_of_peers_and_leaves_our_own_alone() -> None:
    group = make_groups(6, 1, "external")[0]
    shaped, metrics = step_gradient([group], settings(external_advantage="shaped"))
    torch.testing.assert_close(shaped, shaped_reference(group), rtol=1e-4, atol=1e-6)
    assert metrics["corrections/shaped"] == 1.0
    own = make_groups(6, 2)
    plain, _ = step_gradient(own, settings())
    assert torch.equal(step_gradient(own, settings(external_advantage="shaped"))[0], plain)


def test_our_own_completions_are_corrected_only_where_that_is_wanted() -> None:
    own = [with_sampler(group, 0.3) for group in make_groups(7, 2)]
    plain, _ = step_gradient(own, settings())
    corrected, metrics = step_gradient(own, settings(local_correction=True))
    torch.testing.assert_close(corrected, math.exp(-0.3) * plain, rtol=1e-3, atol=1e-5)
    assert metrics["sampling/effective_sample_share/local"] == pytest.approx(1.0, abs=1e-3)
    assert metrics["completions/weighted_external"] == 0.0


def test_against_the_sampler_what_it_disagrees_on_is_clipped_and_told_by_sign() -> None:
    own, unknown = make_groups(7, 2)
    near, far = with_sampler(own, 0.1), with_sampler(own, -0.5)
    against = settings(ratio_denominator="sampler")
    plain, _ = step_gradient([own], settings())
    # log μ - log π = 0.1: inside both clips, so that the whole ratio weighs the token.
    inside, metrics = step_gradient([near], against)
    torch.testing.assert_close(inside, math.exp(-0.1) * plain, rtol=1e-3, atol=1e-5)
    assert metrics["advantage_lost/positive"] == metrics["advantage_lost/negative"] == 0.0
    # The sampler found each token less likely by half a nat: what worked is not reinforced.
    _, metrics = step_gradient([far], against)
    assert (metrics["advantage_lost/positive"], metrics["advantage_lost/negative"]) == (1.0, 0.0)
    _, metrics = step_gradient([with_sampler(own, 0.5)], against)
    assert (metrics["advantage_lost/positive"], metrics["advantage_lost/negative"]) == (0.0, 1.0)
    # Truncated importance sampling loses nothing of either.
    _, metrics = step_gradient([far], settings(local_correction=True))
    assert metrics["advantage_lost/positive"] == metrics["advantage_lost/negative"] == 0.0
    assert torch.equal(
        step_gradient([unknown], against)[0], step_gradient([unknown], settings())[0]
    )


def test_a_peers_claim_is_never_what_its_ratio_is_taken_against() -> None:
    claim = [with_sampler(group, -3.0) for group in make_groups(7, 2, "external")]
    both = step_gradient(claim, settings(external_advantage="both"))[0]
    against = settings(external_advantage="both", ratio_denominator="sampler")
    assert torch.equal(step_gradient(claim, against)[0], both)


def test_what_is_lost_counts_by_how_much_was_wanted() -> None:
    advantages, pushes = torch.tensor([3.0, 1.0, -1.0, -4.0]), torch.tensor([0.0, 0.5, 0.0, 0.1])
    found = lost_advantages(advantages, pushes)
    assert found == {"advantage_lost/positive": 0.75, "advantage_lost/negative": pytest.approx(0.2)}
    assert lost_advantages(advantages[:2], pushes[:2]).keys() == {"advantage_lost/positive"}


def test_what_a_mask_drops_is_lost_too() -> None:
    far = [with_sampler(group, 0.8) for group in make_groups(7, 2)]
    dropping = settings(local_correction=True, off_policy_threshold=0.5)
    _, metrics = step_gradient(far, dropping)
    assert metrics["tokens/off_policy_dropped"] > 0.0
    assert (metrics["advantage_lost/positive"], metrics["advantage_lost/negative"]) == (0.0, 1.0)


def test_a_peers_share_of_the_push_is_reported_with_that_of_the_largest() -> None:
    own = make_groups(8, 1)
    one, other = (
        dataclasses.replace(group, origin=name)
        for group, name in zip(make_groups(9, 2, "external"), ("aa", "bb"), strict=True)
    )
    _, metrics = step_gradient([*own, one, other], settings(external_advantage="both"))
    # At ratio 1 a token's push is the size of its advantage.
    sizes = []
    for group in (*own, one, other):
        rewards = torch.tensor(group.rewards)
        advantages = ((rewards - rewards.mean()) / (rewards.std() + 1e-4)).abs().tolist()
        lengths = [len(ids) for ids in group.completions]
        sizes.append(sum(a * n for a, n in zip(advantages, lengths, strict=True)))
    total = sum(sizes)
    assert metrics["external_gradient_share"] == pytest.approx((total - sizes[0]) / total, rel=1e-4)
    largest = max(sizes[1:]) / total
    assert metrics["external_gradient_share/largest_peer"] == pytest.approx(largest, rel=1e-4)
