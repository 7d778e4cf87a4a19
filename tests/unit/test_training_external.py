"""What completions of peers may and may not do, under each setting."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from swarmnode.config.external import LogProbGate
from swarmnode.config.training import Training
from swarmnode.observe.training_metrics import TRAINING_METRICS
from swarmnode.training import Trainer, TrainingGroup
from swarmnode.training.log_prob_gate import LEAST
from swarmnode.training.plan import plan_round
from tests.unit.training_support import (
    TinyLlama,
    VersatileLlama,
    make_group,
    make_groups,
    naive_logprobs,
    step_gradient,
)


def settings(**changes: Any) -> Training:
    return Training(warmup_steps=0, **changes)


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def with_sampler(group: TrainingGroup, shift: float) -> TrainingGroup:
    """Log-probs of a sampler that finds every token `shift` nats likelier than TinyLlama(0)."""
    model = TinyLlama(0)
    logprobs = []
    for completion in group.completions:
        own = naive_logprobs(model, group.prompt_ids, completion, 1.0).detach()
        logprobs.append(tuple((own + shift).clamp(max=0.0).tolist()))
    return dataclasses.replace(group, sampler_logprobs=tuple(logprobs))


def test_off_is_as_if_peers_had_sent_nothing() -> None:
    own, foreign = make_groups(1, 2), make_groups(2, 3, "external")
    off, metrics = step_gradient([*own, *foreign], settings(external_advantage="off"))
    alone, _ = step_gradient(own, settings())
    assert torch.equal(off, alone)
    assert metrics["tokens/external"] == 0.0


def test_both_counts_a_peers_group_exactly_as_our_own() -> None:
    own, foreign = make_groups(3, 2), make_groups(4, 2, "external")
    adopted = [dataclasses.replace(group, source="local") for group in foreign]
    both, metrics = step_gradient([*own, *foreign], settings(external_advantage="both"))
    plain, _ = step_gradient([*own, *adopted], settings())
    assert_close(both, plain)
    assert 0.0 < metrics["external_token_share"] < 1.0


def test_positive_trains_on_successes_of_peers_alone_and_on_all_of_our_own() -> None:
    own, foreign = make_groups(5, 1), make_groups(6, 2, "external")
    plan = plan_round([*own, *foreign], settings())
    signs = [{one.advantage > 0.0 for one in row.completions} for row in plan.rows]
    assert signs == [{True, False}, {True}, {True}]


def test_weighted_equals_both_when_the_peer_samples_as_we_do() -> None:
    foreign = [with_sampler(group, 0.0) for group in make_groups(7, 2, "external")]
    weighted, metrics = step_gradient(foreign, settings(external_advantage="weighted"))
    both, _ = step_gradient(foreign, settings(external_advantage="both"))
    torch.testing.assert_close(weighted, both, rtol=1e-3, atol=1e-5)
    assert metrics["sampling/importance_sampling_ratio/mean"] == pytest.approx(1.0, abs=1e-3)


def test_weighted_scales_by_the_ratio_and_caps_it() -> None:
    base = make_groups(8, 1, "external")[0]
    both, _ = step_gradient([base], settings(external_advantage="both"))
    for shift, weight in ((0.3, math.exp(-0.3)), (-0.5, math.exp(0.5)), (-3.0, 2.0)):
        group = with_sampler(base, shift)
        gradient, metrics = step_gradient([group], settings(external_advantage="weighted"))
        torch.testing.assert_close(gradient, weight * both, rtol=1e-3, atol=1e-5)
        assert metrics["sampling/importance_sampling_ratio/max"] <= 2.0 + 1e-6


def test_weighted_drops_failures_far_from_our_policy_and_their_tokens() -> None:
    group = with_sampler(make_groups(9, 1, "external")[0], 1.0)
    gradient, metrics = step_gradient([group], settings(external_advantage="weighted"))
    positive, _ = step_gradient([group], settings(external_advantage="positive"))
    torch.testing.assert_close(gradient, math.exp(-1.0) * positive, rtol=1e-3, atol=1e-5)
    failures = zip(group.completions, group.rewards, strict=True)
    lost = sum(len(completion) for completion, reward in failures if reward == 0.0)
    assert metrics["tokens/off_policy_dropped"] == lost


def test_corrections_for_peers_leave_our_own_completions_alone() -> None:
    own = [with_sampler(group, 1.5) for group in make_groups(16, 2)]
    foreign = with_sampler(make_groups(17, 1, "external")[0], -0.4)
    mixed, metrics = step_gradient([*own, foreign], settings(external_advantage="weighted"))
    alone, own_metrics = step_gradient(own, settings())
    theirs, their_metrics = step_gradient([foreign], settings(external_advantage="weighted"))
    own_tokens, their_tokens = own_metrics["tokens/local"], their_metrics["tokens/external"]
    tokens = own_tokens + their_tokens
    assert_close(mixed, (alone * own_tokens + theirs * their_tokens) / tokens)
    assert metrics["tokens/off_policy_dropped"] == 0.0


def test_a_peers_completion_that_could_not_be_scored_stays_out_of_the_denominator() -> None:
    group = make_group(random.Random(18), (1.0, 0.0, math.nan), "external")
    _, metrics = step_gradient([group], settings())
    assert metrics["tokens/external"] == len(group.completions[0])


@pytest.mark.parametrize("lie", ["short", "positive", "nan", "infinite", "missing"])
def test_logprobs_that_cannot_be_true_demote_a_completion_to_positive(lie: str) -> None:
    group = with_sampler(make_groups(10, 1, "external")[0], 0.0)
    assert group.sampler_logprobs is not None
    spoilt: list[tuple[float, ...] | None] = []
    for logprobs in group.sampler_logprobs:
        assert logprobs is not None
        falsified: dict[str, tuple[float, ...] | None] = {
            "short": logprobs[:-1],
            "positive": (*logprobs[:-1], 0.5),
            "nan": (*logprobs[:-1], math.nan),
            "infinite": (*logprobs[:-1], -math.inf),
            "missing": None,
        }
        spoilt.append(falsified[lie])
    liar = dataclasses.replace(group, sampler_logprobs=tuple(spoilt))
    gradient, metrics = step_gradient([liar], settings(external_advantage="weighted"))
    positive, _ = step_gradient([group], settings(external_advantage="positive"))
    assert_close(gradient, positive)
    assert metrics["completions/weighted_external"] == 0.0


def test_a_round_of_dropped_failures_alone_is_no_step() -> None:
    model = TinyLlama(0)
    group = with_sampler(make_group(random.Random(11), (1.0, 0.0, 0.0), "external"), 2.0)
    assert group.sampler_logprobs is not None
    silent = dataclasses.replace(
        group,
        completions=((), *group.completions[1:]),
        sampler_logprobs=((), *group.sampler_logprobs[1:]),
    )
    before = model.vector()
    report = Trainer(model, settings(external_advantage="weighted"), 1.0).step([silent])
    assert not report.stepped
    assert report.metrics["steps/skipped_no_live_group"] == 1.0
    assert torch.equal(model.vector(), before)


def test_completions_without_tokens_are_left_out() -> None:
    group = make_group(random.Random(12), (1.0, 0.0, 1.0))
    silent = dataclasses.replace(group, completions=((), *group.completions[1:]))
    _, metrics = step_gradient([silent], settings())
    assert metrics["completions/masked_local"] == 1.0
    assert metrics["tokens/local"] == sum(len(one) for one in group.completions[1:])


def test_every_reported_metric_is_documented_and_every_documented_one_reported() -> None:
    own = [with_sampler(group, 0.0) for group in make_groups(13, 2)]
    foreign = [with_sampler(group, 0.1) for group in make_groups(14, 2, "external")]
    chosen = settings(
        external_advantage="weighted",
        local_correction=True,
        kl_weight=0.1,
        covariance="clip",
        covariance_low=-9.0,
    )
    trainer = Trainer(VersatileLlama(), chosen, 1.0, gate=LogProbGate())
    seen = {"log_prob_gate": {own[0].task: [0.0] * LEAST}}
    trainer.load_state_dict({**trainer.state_dict(), **seen})
    unlike = dataclasses.replace(foreign[0], same_tokenizer=not foreign[0].same_tokenizer)
    metrics = trainer.step([*own, *foreign, unlike]).metrics
    assert set(metrics) == set(TRAINING_METRICS)
    assert metrics["sampling/sampling_logp_difference/max"] < 1e-4


def test_a_group_whose_parts_do_not_fit_together_is_refused() -> None:
    group = make_group(random.Random(15))
    with pytest.raises(ValueError, match="prompt"):
        dataclasses.replace(group, prompt_ids=())
    with pytest.raises(ValueError, match="rewards"):
        dataclasses.replace(group, rewards=(1.0,))


def test_a_peers_group_that_is_too_long_is_left_out_and_our_own_is_not() -> None:
    own, foreign = make_groups(21, 2), make_group(random.Random(22), [1.0, 0.0] * 20, "external")
    both = settings(external_advantage="both", external_group_tokens=100)
    alone, _ = step_gradient(own, both)
    together, metrics = step_gradient([*own, foreign], both)
    assert torch.equal(together, alone)
    assert metrics["groups/oversized_external"] == 1.0
    assert metrics["groups/live_external"] == 1.0
    adopted = dataclasses.replace(foreign, source="local")
    _, metrics = step_gradient([*own, adopted], both)
    assert metrics["groups/oversized_external"] == 0.0
    assert metrics["tokens/local"] > 100.0


def test_local_positive_trains_on_own_completions_as_positive_does_on_those_of_peers() -> None:
    own = make_groups(3, 2)
    foreign = [dataclasses.replace(group, source="external") for group in own]
    positive, metrics = step_gradient(own, settings(local_advantage="positive"))
    as_peers, _ = step_gradient(foreign, settings(external_advantage="positive"))
    assert_close(positive, as_peers)
    assert metrics["completions/masked_local"] > 0.0
    plain, _ = step_gradient(own, settings())
    assert not torch.allclose(positive, plain)


def test_local_positive_leaves_the_sign_of_peers_completions_to_its_own_setting() -> None:
    foreign = make_groups(4, 2, "external")
    one, _ = step_gradient(foreign, settings(local_advantage="positive", external_advantage="both"))
    other, _ = step_gradient(foreign, settings(external_advantage="both"))
    assert_close(one, other)
