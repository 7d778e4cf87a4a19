"""The sampler's log-probs and training's are the same numbers, at any temperature.

Generation caches and shares prompts, training packs trees: two computations of one distribution.
"""

from __future__ import annotations

import pytest
import torch

from swarmnode.config.policy import PolicySettings, TinySettings
from swarmnode.config.training import Training
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy
from swarmnode.training import Trainer, TrainingGroup
from tests.benchmarks.engine_step import agreement

PROMPTS = ("What is 12 + 30?", "Convert 255 to base 16.", "Simplify 12/18", "7")


SETTINGS = PolicySettings(tiny=TinySettings(initial_deviation=0.3))
"""Weights large enough for distributions that are far from uniform."""


def sampled_groups(policy: Policy, temperature: float) -> list[TrainingGroup]:
    """Groups straight from the sampler, made live: only their log-probs matter here."""
    groups = policy.generate(
        PROMPTS,
        completions_per_prompt=6,
        max_new_tokens=9,
        temperature=temperature,
        generator=torch.Generator().manual_seed(5),
    )
    return [
        TrainingGroup(
            prompt_ids=tuple(policy.encode_prompt(prompt)),
            completions=tuple(one.token_ids or () for one in completions),
            truncated=(False,) * len(completions),
            rewards=tuple(float(index % 2) for index in range(len(completions))),
            source="local",
            task="arithmetic",
            sampler_logprobs=tuple(one.logprobs for one in completions),
        )
        for prompt, completions in zip(PROMPTS, groups, strict=True)
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.4])
def test_sampling_logprobs_equal_training_logprobs(temperature: float) -> None:
    policy = load_policy(SETTINGS, seed=3)
    report = Trainer(policy, Training(), temperature).step(sampled_groups(policy, temperature))
    assert report.metrics["sampling/sampling_logp_difference/max"] < 1e-4
    assert report.metrics["logprobs/local"] < -0.1


def test_training_at_another_temperature_than_the_samplers_shows_in_the_difference() -> None:
    policy = load_policy(SETTINGS, seed=3)
    report = Trainer(policy, Training(), 1.0).step(sampled_groups(policy, 0.6))
    assert report.metrics["sampling/sampling_logp_difference/mean"] > 0.01


def test_the_native_forward_gives_the_gradient_of_transformers_padded_forward() -> None:
    policy = load_policy(SETTINGS, seed=3)
    groups = sampled_groups(policy, 0.9)
    checked = agreement(groups, policy, load_policy(SETTINGS, seed=3))
    assert checked.logprobs < 1e-4
    assert checked.gradient < 1e-5
