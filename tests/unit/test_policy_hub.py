"""Models of folders and of the hub's cache: what is loaded, what is refused, in one line each."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import constants

from swarmnode.config.policy import PolicySettings
from swarmnode.policy.hub import hub_folder
from swarmnode.policy.loading import load_policy
from swarmnode.policy.names import ModelKind, UnknownModel, UnusableModel, model_kind, policy_name
from swarmnode.policy.sampling import Sampled
from tests.unit.model_support import small_llama, write_model

COMMIT = "0123456789012345678901234567890123456789"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "small")


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of a machine without a network."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def cached(hub_cache: Path, whole: Path, commit: str = COMMIT) -> Path:
    """The model as the hub's client keeps it."""
    folder = hub_cache / "models--someone--small"
    shutil.copytree(whole, folder / "snapshots" / commit)
    (folder / "refs").mkdir(exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    return folder / "snapshots" / commit


def changed(whole: Path, folder: Path, **config: Any) -> Path:
    shutil.copytree(whole, folder)
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | config))
    return folder


def test_names_mean_what_is_there(whole: Path) -> None:
    assert model_kind("tiny") is ModelKind.TINY
    assert model_kind("smollm2-135m") is ModelKind.SMOLLM2
    assert model_kind(str(whole)) is ModelKind.FOLDER
    assert model_kind("Qwen/Qwen2.5-0.5B-Instruct") is ModelKind.HUB
    for unknown in ("gigantic", "./nowhere/there", "/no/where", "a b/c"):
        with pytest.raises(UnknownModel):
            model_kind(unknown)


def test_peers_are_told_no_path_of_this_machine(whole: Path) -> None:
    assert policy_name(str(whole)) == "small"
    assert policy_name("someone/small") == "someone/small"


def test_a_folder_becomes_a_policy_with_the_weights_of_its_files(whole: Path) -> None:
    policy = load_policy(PolicySettings(model=str(whole)), seed=0)
    expected = small_llama().state_dict()
    for name, tensor in policy.model.state_dict().items():
        assert torch.equal(tensor, expected[name])
    assert policy.info.name == "small"
    assert policy.codec.end_ids == (2, 0)
    assert not policy.model.training
    (answer,) = policy.answer(["Calculate 1 + 1."], 5, 1.0, torch.Generator().manual_seed(0))
    assert answer.token_count <= 5


def test_a_cached_hub_model_needs_no_network(hub_cache: Path, whole: Path) -> None:
    folder = cached(hub_cache, whole)
    assert hub_folder("someone/small", "main") == folder
    assert hub_folder("someone/small", COMMIT) == folder
    assert load_policy(PolicySettings(model="someone/small"), 0).info.name == "someone/small"


def test_offline_and_not_in_the_cache_is_one_line(hub_cache: Path) -> None:
    with pytest.raises(UnusableModel, match=r"someone/small at main .*HF_HUB_OFFLINE") as raised:
        hub_folder("someone/small", "main")
    assert "\n" not in str(raised.value)


def test_a_download_that_was_broken_off_is_not_taken_for_a_model(
    hub_cache: Path, whole: Path
) -> None:
    (cached(hub_cache, whole) / "model.safetensors").unlink()
    with pytest.raises(UnusableModel, match="not whole in the cache"):
        hub_folder("someone/small", "main")


def test_a_hub_that_cannot_be_reached_is_one_line(
    hub_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", address)
        with pytest.raises(UnusableModel, match=r"cannot be downloaded \(.*HF_TOKEN") as raised:
            hub_folder("someone/small", "main")
    assert "\n" not in str(raised.value)


def test_another_revision_is_not_confused_with_the_one_that_is_cached(
    hub_cache: Path, whole: Path
) -> None:
    cached(hub_cache, whole)
    with pytest.raises(UnusableModel, match="someone/small at v2"):
        hub_folder("someone/small", "v2")


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"model_type": "homemade", "auto_map": {"AutoModel": "m.py"}}, "needs code of its own"),
        ({"model_type": "homemade"}, "unknown architecture"),
        ({"quantization_config": {"bits": 4}}, "is quantized"),
        ({"model_type": "vit"}, "no causal language model"),
    ],
)
def test_what_cannot_be_trained_is_refused_in_one_line(
    whole: Path, tmp_path: Path, config: dict[str, Any], reason: str
) -> None:
    folder = changed(whole, tmp_path / "odd", **config)
    with pytest.raises(UnusableModel, match=reason) as raised:
        load_policy(PolicySettings(model=str(folder)), 0)
    assert "\n" not in str(raised.value)


def test_code_in_a_models_folder_is_never_run(whole: Path, tmp_path: Path) -> None:
    folder = changed(
        whole,
        tmp_path / "coded",
        auto_map={"AutoConfig": "bad.Config", "AutoModelForCausalLM": "bad.Model"},
    )
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer["auto_map"] = {"AutoTokenizer": ["bad.Tokenizer", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "bad.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    load_policy(PolicySettings(model=str(folder)), 0)
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_are_refused_by_what_they_are(whole: Path, tmp_path: Path) -> None:
    folder = changed(whole, tmp_path / "pickled")
    (folder / "model.safetensors").unlink()
    torch.save(small_llama().state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(UnusableModel, match=r"no complete weights in safetensors.*pickled"):
        load_policy(PolicySettings(model=str(folder)), 0)


def test_a_missing_part_of_the_weights_is_named(whole: Path, tmp_path: Path) -> None:
    folder = changed(whole, tmp_path / "parts")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UnusableModel, match="model-00001-of-00002"):
        load_policy(PolicySettings(model=str(folder)), 0)


def test_a_model_without_an_end_token_is_refused(whole: Path, tmp_path: Path) -> None:
    folder = changed(whole, tmp_path / "endless", eos_token_id=None)
    (folder / "generation_config.json").unlink()
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    del tokenizer["eos_token"]
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    with pytest.raises(UnusableModel, match="no end token"):
        load_policy(PolicySettings(model=str(folder)), 0)


def test_a_folder_of_something_else_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UnusableModel, match=r"is no model: .* has no config\.json"):
        load_policy(PolicySettings(model=str(tmp_path)), 0)


def test_a_tokenizer_that_is_none_or_a_slow_one_is_refused(whole: Path, tmp_path: Path) -> None:
    folder = changed(whole, tmp_path / "broken")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(UnusableModel, match=r"tokenizer of .* cannot be loaded") as raised:
        load_policy(PolicySettings(model=str(folder)), 0)
    assert "\n" not in str(raised.value)
    folder = changed(whole, tmp_path / "slow")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "ByT5Tokenizer"}')
    with pytest.raises(UnusableModel, match="no fast tokenizer"):
        load_policy(PolicySettings(model=str(folder)), 0)


def test_a_name_is_understood_without_torch() -> None:
    code = "import sys, swarmnode.policy.names; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_task_brings_its_examples_to_every_prompt_of_it(whole: Path) -> None:
    policy = load_policy(PolicySettings(model=str(whole), instruction="Be brief."), seed=0)
    pairs = [("Calculate 2 + 3.", "5")]
    policy.examples = {"sums": pairs}
    text, generator = "Calculate 1 + 1.", torch.Generator()
    asked = policy.codec.encode_prompt(text, pairs)
    assert policy.encode_prompt(text, "sums") == asked
    assert policy.encode_prompt(text, "others") == policy.codec.encode_prompt(text) != asked
    seen: list[list[int]] = []

    def sample(prompts: list[list[int]], *_: object) -> list[tuple[Sampled, ...]]:
        seen.extend(prompts)
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy.engine, "sample", sample)
        policy.generate([text, text], 2, 3, 1.0, generator, ["sums", "others"])
    assert seen == [asked, policy.encode_prompt(text)]
