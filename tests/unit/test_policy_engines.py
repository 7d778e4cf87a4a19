"""Every engine samples from the model's own distribution and says so in its log-probs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy.engine import Engine, EngineChoice, choose_engine
from swarmnode.policy.matrices import UnsupportedModel
from swarmnode.policy.sampling import Sampled
from tests.unit.policy_models import NATIVE, VOCABULARY, small_model

PROMPTS = [[5, 6, 7], [8], [9, 10, 11, 12, 13, 14, 15], [5, 0, 1, 0]]
END_IDS = (1, 2)
PAIRS: list[tuple[EngineChoice, str]] = [
    *(("native", family) for family in NATIVE),
    ("hf", "llama"),
    ("hf", "gpt2"),
]


def draw(
    engine: Engine,
    *,
    completions: int = 4,
    new_tokens: int = 9,
    temperature: float = 1.0,
    end_ids: Sequence[int] = END_IDS,
    seed: int = 3,
) -> list[tuple[Sampled, ...]]:
    generator = torch.Generator().manual_seed(seed)
    return engine.sample(PROMPTS, completions, new_tokens, temperature, end_ids, generator)


@torch.no_grad()
def teacher_forced(
    model: PreTrainedModel, prompt: Sequence[int], completion: Sequence[int], temperature: float
) -> Tensor:
    token_ids = torch.tensor([[*prompt, *completion]])
    logits: Tensor = model(token_ids).logits[0, len(prompt) - 1 : -1].float() / temperature
    return logits.log_softmax(-1).gather(1, torch.tensor(completion).unsqueeze(1)).squeeze(1)


@pytest.mark.parametrize(("engine", "family"), PAIRS)
@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_log_probs_are_those_of_teacher_forcing(
    engine: EngineChoice, family: str, temperature: float
) -> None:
    model = small_model(family)
    rows = draw(choose_engine(model, engine), temperature=temperature)
    assert {row.stopped for group in rows for row in group} == {True, False}
    for prompt, group in zip(PROMPTS, rows, strict=True):
        for row in group:
            expected = teacher_forced(model, prompt, row.token_ids, temperature)
            torch.testing.assert_close(torch.tensor(row.logprobs), expected, atol=1e-4, rtol=0.0)
            assert set(END_IDS).isdisjoint(row.token_ids[:-1])
            assert row.stopped == (row.token_ids[-1] in END_IDS)
            assert row.stopped or len(row.token_ids) == 9


@pytest.mark.parametrize(("engine", "family"), PAIRS)
def test_half_precision_keeps_log_probs_close(engine: EngineChoice, family: str) -> None:
    model = small_model(family).bfloat16()
    rows = draw(choose_engine(model, engine), temperature=0.9)
    gaps = [
        torch.tensor(row.logprobs) - teacher_forced(model, prompt, row.token_ids, 0.9)
        for prompt, group in zip(PROMPTS, rows, strict=True)
        for row in group
    ]
    # Two orders of summing in eight bits of mantissa; fp32 logits differ from these by as much.
    assert torch.cat(gaps).abs().mean() < 0.05


@pytest.mark.parametrize("inner", [48, 8192])
def test_under_autocast_it_computes_in_half_precision(inner: int) -> None:
    """The wider model has matrices that are kept in a packed layout."""
    model = small_model("llama", intermediate_size=inner)
    engine = choose_engine(model, "native")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rows = draw(engine)
        for prompt, group in zip(PROMPTS, rows, strict=True):
            for row in group:
                gaps = torch.tensor(row.logprobs)
                gaps = gaps - teacher_forced(model, prompt, row.token_ids, 1.0)
                assert gaps.abs().mean() < 0.1
    exact = [row.logprobs for group in draw(engine) for row in group]
    assert [row.logprobs for group in rows for row in group] != exact


@pytest.mark.parametrize("temperature", [0.0, 1.3])
@pytest.mark.parametrize("family", NATIVE)
def test_engines_sample_the_same_rows_from_the_same_generator(
    temperature: float, family: str
) -> None:
    model = small_model(family)
    native = draw(choose_engine(model, "native"), temperature=temperature)
    reference = draw(choose_engine(model, "hf"), temperature=temperature)
    for ours, theirs in zip(native, reference, strict=True):
        for mine, other in zip(ours, theirs, strict=True):
            assert (mine.token_ids, mine.stopped) == (other.token_ids, other.stopped)
            assert mine.logprobs == pytest.approx(other.logprobs, abs=1e-4)


def test_sampling_defaults_of_a_models_generation_config_are_set_aside() -> None:
    plain, biased = small_model("gpt2"), small_model("gpt2")
    own = biased.generation_config
    own.update(do_sample=True, top_k=1, top_p=0.1, temperature=0.2, repetition_penalty=3.0)
    own.update(no_repeat_ngram_size=1, suppress_tokens=[3, 4, 5], min_new_tokens=9)
    own.update(eos_token_id=[7, 8, 9], pad_token_id=1)
    expected, rows = (draw(choose_engine(model, "hf"), end_ids=()) for model in (plain, biased))
    assert rows == expected
    assert all(not row.stopped and len(row.token_ids) == 9 for group in rows for row in group)
    assert biased.generation_config is own
    assert own.top_k == 1


def test_dropout_is_off_whatever_mode_the_model_was_in() -> None:
    trained = small_model("gpt2").train()
    assert draw(choose_engine(trained, "hf")) == draw(choose_engine(small_model("gpt2"), "hf"))


@pytest.mark.parametrize("engine", ["native", "hf"])
def test_the_generator_advances_by_what_was_asked_and_not_by_what_was_sampled(
    engine: EngineChoice,
) -> None:
    chosen = choose_engine(small_model("llama"), engine)
    states = []
    for end_ids in ((1,), tuple(range(VOCABULARY))):
        generator = torch.Generator().manual_seed(0)
        chosen.sample(PROMPTS, 4, 9, 1.0, end_ids, generator)
        states.append(generator.get_state())
    assert torch.equal(*states)


@pytest.mark.parametrize("engine", ["native", "hf"])
def test_no_prompts_give_no_rows(engine: EngineChoice) -> None:
    generator = torch.Generator()
    assert choose_engine(small_model("llama"), engine).sample([], 4, 9, 1.0, (1,), generator) == []


@pytest.mark.parametrize(("family", "name"), [("llama", "native"), ("gpt2", "hf")])
def test_the_native_engine_is_chosen_where_it_covers_the_model(family: str, name: str) -> None:
    assert choose_engine(small_model(family), "auto").name == name


def test_the_native_engine_is_refused_by_name_where_it_covers_no_such_model() -> None:
    with pytest.raises(UnsupportedModel, match="GPT2LMHeadModel"):
        choose_engine(small_model("gpt2"), "native")
