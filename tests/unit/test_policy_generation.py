"""The native forward and generation agree with transformers' own forward on the same weights."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from swarmnode.policy.decoder import Decoder, forward
from swarmnode.policy.engine import choose_engine
from swarmnode.policy.generation import sample
from swarmnode.policy.matrices import UnsupportedModel
from swarmnode.policy.policy import Policy
from swarmnode.policy.sampling import Sampled
from swarmnode.policy.text import PhraseCodec
from swarmnode.policy.tokenizer import PhraseTokenizer

VOCABULARY = 50
PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14, 15], [5, 0, 1, 0]]


def small_model(key_value_heads: int = 2, *, tied: bool = True, seed: int = 0) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=key_value_heads,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=1,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
    return model


def policy_of(model: nn.Module) -> Policy:
    return Policy(
        "test", model, PhraseCodec(PhraseTokenizer.load()), choose_engine(model, "native")
    )


def draw(
    model: nn.Module,
    *,
    prompts: Sequence[Sequence[int]] = PROMPTS,
    completions: int = 4,
    new_tokens: int = 9,
    temperature: float = 1.0,
    end_ids: Sequence[int] = (1,),
    seed: int = 3,
) -> list[tuple[Sampled, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return sample(Decoder(model), prompts, completions, new_tokens, temperature, end_ids, generator)


def reference_logprobs(
    model: LlamaForCausalLM, prompt: Sequence[int], completion: Sequence[int], temperature: float
) -> Tensor:
    token_ids = torch.tensor([[*prompt, *completion]])
    logits: Tensor = model(token_ids).logits[0, len(prompt) - 1 : -1] / temperature
    chosen = torch.tensor(completion).unsqueeze(1)
    return logits.log_softmax(-1).gather(1, chosen).squeeze(1)


@pytest.mark.parametrize("key_value_heads", [4, 2, 1])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_sampler_log_probs_are_those_of_transformers(
    key_value_heads: int, tied: bool, temperature: float
) -> None:
    model = small_model(key_value_heads, tied=tied)
    with torch.no_grad():
        for prompt, rows in zip(PROMPTS, draw(model, temperature=temperature), strict=True):
            for row in rows:
                expected = reference_logprobs(model, prompt, row.token_ids, temperature)
                torch.testing.assert_close(
                    torch.tensor(row.logprobs), expected, atol=1e-4, rtol=0.0
                )


def test_greedy_answers_are_those_of_transformers_generate() -> None:
    model = small_model()
    rows = draw(model, completions=1, temperature=0.0, new_tokens=12)
    for prompt, (row,) in zip(PROMPTS, rows, strict=True):
        ids = torch.tensor([prompt])
        expected = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=12,
            pad_token_id=0,
            eos_token_id=1,
        )[0, len(prompt) :]
        assert list(row.token_ids) == expected.tolist()
        assert row.logprobs == ()


def test_sampling_follows_the_distribution_at_the_temperature() -> None:
    model, prompt = small_model(), [5, 6, 7]
    rows = draw(model, prompts=[prompt], completions=20_000, new_tokens=1, temperature=1.5)[0]
    counted = torch.bincount(torch.tensor([row.token_ids[0] for row in rows]), minlength=VOCABULARY)
    with torch.no_grad():
        expected = (model(torch.tensor([prompt])).logits[0, -1] / 1.5).softmax(-1)
    assert (counted / len(rows) - expected).abs().max() < 0.015


def test_finish_reasons_tell_ended_rows_from_cut_ones() -> None:
    rows = [row for rows in draw(small_model(), completions=32, end_ids=(1, 2, 3)) for row in rows]
    assert {row.stopped for row in rows} == {True, False}
    for row in rows:
        assert len(row.token_ids) == len(row.logprobs)
        assert {1, 2, 3}.isdisjoint(row.token_ids[:-1])
        if row.stopped:
            assert row.token_ids[-1] in (1, 2, 3)
        else:
            assert len(row.token_ids) == 9
            assert row.token_ids[-1] not in (1, 2, 3)


def test_an_end_token_that_is_also_padding_still_ends_a_row() -> None:
    with_pad_as_end = draw(small_model(), end_ids=(0,), completions=32)
    ended = [row for rows in with_pad_as_end for row in rows if row.stopped]
    assert ended
    assert all(row.token_ids[-1] == 0 and 0 not in row.token_ids[:-1] for row in ended)


def test_the_same_generator_gives_the_same_rows() -> None:
    assert draw(small_model(), seed=5) == draw(small_model(), seed=5)
    assert draw(small_model(), seed=5) != draw(small_model(), seed=6)


def test_the_generator_advances_by_what_was_asked_and_not_by_what_was_sampled() -> None:
    states = []
    for end_ids in ((1,), tuple(range(VOCABULARY))):
        generator = torch.Generator().manual_seed(0)
        sample(Decoder(small_model()), PROMPTS, 4, 9, 1.0, end_ids, generator)
        states.append(generator.get_state())
    assert torch.equal(*states)


def test_a_row_does_not_depend_on_which_others_end_early() -> None:
    model = small_model()
    without_end = draw(model, end_ids=(), completions=16)
    with_end = draw(model, end_ids=(1, 2, 3, 4, 5), completions=16)
    assert any(row.stopped for rows in with_end for row in rows)
    for free_rows, rows in zip(without_end, with_end, strict=True):
        for free, row in zip(free_rows, rows, strict=True):
            assert free.token_ids[: len(row.token_ids)] == row.token_ids
            assert free.logprobs[: len(row.token_ids)] == pytest.approx(row.logprobs, abs=1e-5)


def test_no_prompts_give_no_rows() -> None:
    assert draw(small_model(), prompts=[]) == []


def pack(
    prompt: Sequence[int], completions: Sequence[Sequence[int]], length: int
) -> tuple[list[int], list[int], list[int]]:
    token_ids, positions, segments = list(prompt), list(range(len(prompt))), [0] * len(prompt)
    for number, completion in enumerate(completions, 1):
        token_ids += completion
        positions += range(len(prompt), len(prompt) + len(completion))
        segments += [number] * len(completion)
    padding = length - len(token_ids)
    return token_ids + [0] * padding, positions + [0] * padding, segments + [-1] * padding


PACKED = [
    ([5, 6, 7], [[8, 9, 1], [10, 1], [11, 12, 13, 14]]),
    ([20], [[0, 0, 1], [0, 1]]),
    ([21, 22, 23, 24, 25], [[26], [27, 28]]),
]


def tree_logprobs(policy: Policy, temperature: float) -> Tensor:
    """Log-probs of all completion tokens but each first, in order."""
    rows = [pack(prompt, completions, 15) for prompt, completions in PACKED]
    token_ids, positions, segments = (torch.tensor(part) for part in zip(*rows, strict=True))
    hidden = policy.tree_hidden(token_ids, positions, segments)
    logprobs = (policy.head(hidden[:, :-1]) / temperature).log_softmax(-1)
    chosen = logprobs.gather(-1, token_ids[:, 1:].unsqueeze(-1)).squeeze(-1)
    inside = (segments[:, 1:] > 0) & (segments[:, 1:] == segments[:, :-1])
    return chosen[inside]


@pytest.mark.parametrize("key_value_heads", [4, 2])
def test_the_packed_forward_and_its_gradients_are_those_of_transformers(
    key_value_heads: int,
) -> None:
    model, temperature = small_model(key_value_heads), 0.8
    packed = tree_logprobs(policy_of(model), temperature)
    separate = torch.cat(
        [
            reference_logprobs(model, prompt, completion, temperature)[1:]
            for prompt, completions in PACKED
            for completion in completions
        ]
    )
    torch.testing.assert_close(packed, separate, atol=1e-4, rtol=0.0)
    weighting = torch.linspace(-1, 1, len(packed))
    parameters = list(model.parameters())
    ours = torch.autograd.grad((packed * weighting).mean(), parameters)
    theirs = torch.autograd.grad((separate * weighting).mean(), parameters)
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


def test_padding_changes_no_visible_token() -> None:
    policy = policy_of(small_model())
    prompt, completions = PACKED[0]
    bare = [torch.tensor([part]) for part in pack(prompt, completions, 12)]
    padded = [torch.tensor([part]) for part in pack(prompt, completions, 20)]
    with torch.no_grad():
        shorter, longer = policy.tree_hidden(*bare), policy.tree_hidden(*padded)
    assert longer.isfinite().all()
    torch.testing.assert_close(shorter, longer[:, :12], atol=1e-5, rtol=0.0)


def test_the_causal_forward_is_that_of_transformers() -> None:
    model = small_model()
    token_ids = torch.randint(0, VOCABULARY, (3, 11), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model(token_ids).logits
        ours = policy_of(model)
        torch.testing.assert_close(
            ours.head(ours.causal_hidden(token_ids)), expected, atol=1e-4, rtol=0.0
        )


def test_static_rotary_scaling_is_followed() -> None:
    model = small_model()
    config = model.config
    config.rope_parameters = {"rope_type": "linear", "factor": 4.0, "rope_theta": 1000.0}
    torch.manual_seed(0)
    scaled = LlamaForCausalLM(config).eval()
    rows = draw(scaled, temperature=1.0)
    with torch.no_grad():
        for prompt, completions in zip(PROMPTS, rows, strict=True):
            expected = reference_logprobs(scaled, prompt, completions[0].token_ids, 1.0)
            torch.testing.assert_close(
                torch.tensor(completions[0].logprobs), expected, atol=1e-4, rtol=0.0
            )


def test_other_architectures_are_refused_by_name() -> None:
    other = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=1, n_positions=8))
    with pytest.raises(UnsupportedModel, match="GPT2LMHeadModel"):
        Decoder(other)


SHARED = [[5, 6, 7, 8, 9], [5, 6, 7, 8], [5, 6, 7, 11, 12, 13], [5, 6, 7, 8, 9], [14]]
"""Prompts that begin alike, one the beginning of others, two the same."""


def test_what_prompts_share_goes_through_the_layers_once() -> None:
    through: list[int] = []
    with pytest.MonkeyPatch.context() as patch:

        def counted(weights: object, token_ids: Tensor, *rest: object) -> Tensor:
            through.append(token_ids.numel())
            return forward(weights, token_ids, *rest)  # type: ignore[arg-type]

        patch.setattr("swarmnode.policy.generation.forward", counted)
        draw(small_model(), prompts=SHARED, new_tokens=1)
    assert through == [len({tuple(one[: end + 1]) for one in SHARED for end in range(len(one))})]


@pytest.mark.parametrize("temperature", [0.7, 1.7])
def test_prompts_that_begin_alike_are_answered_as_each_alone_would_be(temperature: float) -> None:
    model = small_model()
    for prompt, rows in zip(
        SHARED, draw(model, prompts=SHARED, temperature=temperature), strict=True
    ):
        for row in rows:
            expected = reference_logprobs(model, prompt, row.token_ids, temperature)
            torch.testing.assert_close(torch.tensor(row.logprobs), expected, atol=1e-5, rtol=0)
