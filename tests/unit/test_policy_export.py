"""An exported policy is the policy: its ids, its text and its answers, by transformers alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarmnode.config.policy import LoraSettings, PolicySettings
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.policy.checkpoint import CheckpointError, sound_checkpoint
from swarmnode.policy.described import describe
from swarmnode.policy.exporting import CannotExport, export_policy
from swarmnode.policy.fast_phrases import SPECIAL, fast_tokenizer
from swarmnode.policy.loading import load_policy
from swarmnode.policy.policy import Policy
from swarmnode.policy.saved_state import CheckpointRefused
from swarmnode.policy.tokenizer import ANSWER_ID, PhraseTokenizer
from tests.unit.checkpoint_support import names, save
from tests.unit.model_support import write_model
from tests.unit.resume_support import PROMPTS, SMALL, order, rounds, saved

PHRASES = PhraseTokenizer.load()
FAST = fast_tokenizer(PHRASES)
KNOWN = [piece.decode() for piece in PHRASES.pieces()[256:]]
TEXTS = st.lists(st.sampled_from(KNOWN) | st.text(max_size=4), max_size=8).map("".join)
IDS = st.lists(st.integers(len(SPECIAL), len(PHRASES) - 1), max_size=12)


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_both_tokenizers_give_the_same_ids(text: str) -> None:
    ids = FAST(text, add_special_tokens=False)["input_ids"]
    assert ids == PHRASES.encode(text)
    assert FAST.decode(ids) == text


@settings(max_examples=300, deadline=None)
@given(IDS)
def test_both_tokenizers_give_the_same_text_for_any_ids(ids: list[int]) -> None:
    assert FAST.decode(ids) == PHRASES.decode(ids)


def test_texts_that_look_like_parts_of_the_vocabulary_are_cut_alike() -> None:
    for text in ("\ue000", "\ue000!", "Calculate  3\n+ 4.", "é" * 50, "Ġ", "<0x41>", "\r\n\x00"):
        assert FAST(text)["input_ids"] == PHRASES.encode(text)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[HostedPolicy, Path]:
    policy = HostedPolicy(order())
    rounds(policy, range(3))
    return policy, saved(policy, tmp_path_factory.mktemp("checkpoints"), {"round": 3})


def test_an_exported_policy_answers_as_it_did(
    trained: tuple[HostedPolicy, Path], tmp_path: Path
) -> None:
    policy, checkpoint = trained
    fresh = HostedPolicy(order(seed=1))
    assert fresh.open(str(checkpoint)) == 6
    fresh.export(str(tmp_path), "merged")
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(names(tmp_path))
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    for prompt, (text, _, ids, _) in zip(
        PROMPTS, policy.answer(PROMPTS, greedy=True, seed=0), strict=True
    ):
        chat = [{"role": "user", "content": prompt}]
        asked = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_tensors="pt")
        assert asked["input_ids"].tolist() == [[*PHRASES.encode(prompt), ANSWER_ID]]
        with torch.no_grad():
            answered = model.generate(**asked, max_new_tokens=8)[0, asked["input_ids"].shape[1] :]
        assert tuple(answered.tolist()) == tuple(ids)
        assert tokenizer.decode(answered, skip_special_tokens=True) == text


def test_what_was_trained_as_a_whole_has_no_adapter(
    trained: tuple[HostedPolicy, Path], tmp_path: Path
) -> None:
    with pytest.raises(CannotExport, match="has no adapter"):
        trained[0].export(str(tmp_path), "adapter")
    assert names(tmp_path) == []


def test_a_policy_opened_from_a_checkpoint_is_the_one_that_was_saved_under_any_training_settings(
    trained: tuple[HostedPolicy, Path],
) -> None:
    policy, checkpoint = trained
    other = HostedPolicy(order(seed=5, learning_rate=0.5))
    before = other.answer(PROMPTS, greedy=False, seed=3)
    other.open(str(checkpoint))
    assert other.answer(PROMPTS, greedy=False, seed=3) == policy.answer(
        PROMPTS, greedy=False, seed=3
    )
    assert before != other.answer(PROMPTS, greedy=False, seed=3)


def test_a_checkpoint_of_another_shape_is_not_opened(trained: tuple[HostedPolicy, Path]) -> None:
    wider = HostedPolicy(order(SMALL.model_copy(update={"width": 32})))
    before = wider.answer(PROMPTS, greedy=True, seed=0)
    with pytest.raises(CheckpointRefused, match="another model"):
        wider.open(str(trained[1]))
    assert wider.answer(PROMPTS, greedy=True, seed=0) == before


def test_samples_do_not_touch_the_sampling_of_rounds() -> None:
    quiet, asked = HostedPolicy(order()), HostedPolicy(order())
    several = asked.samples(PROMPTS, 4, seed=2)
    assert several == asked.samples(PROMPTS, 4, seed=2) != asked.samples(PROMPTS, 4, seed=3)
    assert [len(group) for group in several] == [4, 4]
    assert rounds(quiet, range(2)) == rounds(asked, range(2))


def test_a_checkpoint_tells_of_itself_without_a_model(trained: tuple[HostedPolicy, Path]) -> None:
    told = describe(trained[1])
    assert (told.model, told.version, told.extra) == ("tiny", 6, {"round": 3})


def test_a_checkpoint_of_another_version_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("[]")
    with pytest.raises(CheckpointError, match="another version"):
        describe(tmp_path)
    with pytest.raises(CheckpointError, match="cannot be read"):
        describe(tmp_path / "absent")


def test_a_reader_takes_the_newest_sound_checkpoint_and_changes_nothing(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        save(tmp_path, number)
    (tmp_path / "step-3" / "first.bin").write_bytes(b"damaged")
    assert sound_checkpoint(tmp_path).name == "step-2"
    assert sound_checkpoint(tmp_path, 1).name == "step-1"
    with pytest.raises(CheckpointError, match="step-3 is damaged"):
        sound_checkpoint(tmp_path, 3)
    with pytest.raises(CheckpointError, match="no checkpoint 9: there are 3, 2, 1"):
        sound_checkpoint(tmp_path, 9)
    assert names(tmp_path) == ["step-1", "step-2", "step-3"]
    shutil.rmtree(tmp_path)
    with pytest.raises(CheckpointError, match="has none yet"):
        sound_checkpoint(tmp_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small")


def policy_of(folder: Path, rank: int = 0) -> Policy:
    """A policy of another model whose trained weights are not those that it began with."""
    lora = LoraSettings(rank=rank, alpha=8.0)
    chosen = PolicySettings(model=str(folder), lora=lora, dtype="float32")
    policy = load_policy(chosen, seed=0)
    with torch.no_grad():
        for parameter in policy.saved_tensors().values():
            parameter.add_(0.03)
    return policy


def greedy(policy: Policy) -> list[tuple[int, ...] | None]:
    answers = policy.answer(PROMPTS, 8, 0.0, torch.Generator())
    return [answer.token_ids for answer in answers]


def generated(model: Any, folder: Path) -> list[tuple[int, ...]]:
    """Greedy answers by transformers alone."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for prompt in PROMPTS:
        chat = [{"role": "user", "content": prompt}]
        # What this test's template does at False, which is what our settings say.
        asked = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, return_tensors="pt", enable_thinking=False
        )
        ids = model.generate(**asked, max_new_tokens=8, do_sample=False)[0]
        found.append(tuple(ids[asked["input_ids"].shape[1] :].tolist()))
    return found


@pytest.mark.parametrize("rank", [0, 4], ids=["all weights", "adapters"])
def test_another_model_is_exported_whole(small: Path, tmp_path: Path, rank: int) -> None:
    policy = policy_of(small, rank)
    export_policy(policy, tmp_path, "merged")
    assert not any("adapter" in name for name in names(tmp_path))
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert (
        generated(model, tmp_path)
        == greedy(policy)
        != greedy(load_policy(PolicySettings(model=str(small)), 0))
    )
    assert model.generation_config.eos_token_id == [0, 2]


def test_an_exported_model_is_a_model_for_us_too(
    small: Path, trained: tuple[HostedPolicy, Path], tmp_path: Path
) -> None:
    policy = policy_of(small)
    export_policy(policy, tmp_path / "other", "merged")
    again = load_policy(PolicySettings(model=str(tmp_path / "other")), 0)
    assert greedy(again) == greedy(policy)
    assert again.info.tokenizer_fingerprint == policy.info.tokenizer_fingerprint
    (tmp_path / "tiny").mkdir()
    trained[0].export(str(tmp_path / "tiny"), "merged")
    tiny = load_policy(PolicySettings(model=str(tmp_path / "tiny")), 0)
    answers = trained[0].answer(PROMPTS, greedy=True, seed=0)
    assert [answer.text for answer in tiny.answer(PROMPTS, 8, 0.0, torch.Generator())] == [
        text for text, _, _, _ in answers
    ]


# peft 0.21 reads a name that transformers 5.24 calls by another one.
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_an_adapter_is_exported_alone_in_the_form_of_peft(small: Path, tmp_path: Path) -> None:
    policy = policy_of(small, rank=4)
    export_policy(policy, tmp_path, "adapter")
    assert {"adapter_config.json", "adapter_model.safetensors"} <= set(names(tmp_path))
    assert "model.safetensors" not in names(tmp_path)
    base = AutoModelForCausalLM.from_pretrained(small)
    model = PeftModel.from_pretrained(base, str(tmp_path))
    assert generated(model, tmp_path) == greedy(policy)
