"""The policy core: text in, completions out, the built-in model and its loading."""

from __future__ import annotations

import pytest
import torch

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.loading import load_policy
from swarmnode.policy.names import UnknownModel
from swarmnode.policy.policy import Policy
from swarmnode.policy.tokenizer import ANSWER_ID, END_ID

QUESTIONS = ["Calculate 3 + 4.", "Simplify the fraction 6/8 to its lowest terms.", "é"]


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy(PolicySettings(), seed=0)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_tiny_has_between_a_tenth_of_a_million_and_a_million_parameters(policy: Policy) -> None:
    assert 100_000 <= sum(parameter.numel() for parameter in policy.parameters()) <= 1_000_000


def test_the_random_start_follows_from_the_seed_alone() -> None:
    torch.manual_seed(1)
    first = load_policy(PolicySettings(), seed=4)
    before = torch.get_rng_state()
    second = load_policy(PolicySettings(), seed=4)
    assert torch.equal(before, torch.get_rng_state())
    other = load_policy(PolicySettings(), seed=5)
    for one, two in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, two)
    assert any(
        not torch.equal(one, two)
        for one, two in zip(first.parameters(), other.parameters(), strict=True)
    )


def test_an_unknown_model_is_named_with_what_exists() -> None:
    with pytest.raises(UnknownModel, match=r"'gigantic'.*'tiny', 'smollm2-135m'"):
        load_policy(PolicySettings(model="gigantic"), seed=0)


def test_completions_carry_what_training_needs(policy: Policy) -> None:
    rows = policy.generate(QUESTIONS, 3, 6, 1.0, generator())
    assert [len(row) for row in rows] == [3, 3, 3]
    for completion in (completion for row in rows for completion in row):
        assert completion.token_ids is not None
        assert completion.logprobs is not None
        assert completion.token_count == len(completion.token_ids) == len(completion.logprobs)
        assert completion.text == policy.codec.decode(completion.token_ids)
        assert (completion.token_ids[-1] == END_ID) == (completion.finish_reason == "stop")


def test_generation_repeats_with_the_same_generator_state(policy: Policy) -> None:
    assert policy.generate(QUESTIONS, 2, 5, 0.9, generator()) == policy.generate(
        QUESTIONS, 2, 5, 0.9, generator()
    )


def test_greedy_answers_need_no_luck_and_carry_no_log_probs(policy: Policy) -> None:
    first = policy.answer(QUESTIONS, 5, 0.0, generator(1))
    assert first == policy.answer(QUESTIONS, 5, 0.0, generator(2))
    assert len(first) == len(QUESTIONS)
    assert all(completion.logprobs is None for completion in first)


def test_prompts_end_with_the_answer_token_and_stopped_completions_with_the_end_token(
    policy: Policy,
) -> None:
    assert policy.encode_prompt("12")[-1] == ANSWER_ID
    assert policy.encode_completion("12", "stop")[-1] == END_ID
    assert policy.encode_completion("12", "length") == policy.encode_completion("12", "stop")[:-1]


def test_info_names_the_policy_its_version_and_its_tokenizer(policy: Policy) -> None:
    assert policy.info.name == "tiny"
    assert policy.info.version == 0
    assert policy.info.tokenizer_fingerprint == policy.codec.fingerprint()
