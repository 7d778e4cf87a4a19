"""Models of the Hugging Face hub and of local folders: where their files are, and opening them.

Only safetensors are loaded and no code of a model is ever run. What is in the cache is taken from
there, so that a model stays what it was; only what is missing is downloaded, and with
HF_HUB_OFFLINE=1 nothing is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from huggingface_hub.utils import tqdm  # type: ignore[attr-defined]
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.modeling_utils import PreTrainedModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from swarmnode.policy.chat import ChatCodec
from swarmnode.policy.names import UnusableModel
from swarmnode.progress import advancing

_FILES = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
_CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"


def hub_folder(name: str, revision: str) -> Path:
    """Return the folder of a snapshot, downloading what the cache lacks.

    Raises UnusableModel.
    """
    try:
        found = Path(snapshot_download(name, revision=revision, local_files_only=True))
        if not missing_files(found):
            return found
    except (LocalEntryNotFoundError, HFValidationError):
        pass
    if constants.HF_HUB_OFFLINE:
        raise UnusableModel(
            f"{name} at {revision} is not whole in the cache {constants.HF_HUB_CACHE} and "
            "HF_HUB_OFFLINE is set; download it on a machine with a network, or unset that"
        )
    try:
        return Path(
            snapshot_download(
                name, revision=revision, allow_patterns=_FILES, tqdm_class=_telling(name)
            )
        )
    except (OSError, HfHubHTTPError, HFValidationError, LocalEntryNotFoundError) as error:
        raise UnusableModel(
            f"{name} at {revision} is not in the cache {constants.HF_HUB_CACHE} and cannot be "
            f"downloaded ({first_line(error)}); check name, revision, network and, for a model "
            "behind a licence, HF_TOKEN"
        ) from error


def _telling(name: str) -> type[tqdm]:
    """What the hub's client counts bytes with: it shows nothing, and says how far it is."""

    # Files are downloaded by threads.
    told = advancing()

    class Telling(tqdm):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            # Of what comes compressed it counts what crosses the network apart.
            transfer = str(named.get("name")).endswith(".transfer")
            self._bytes = named.get("unit") == "B" and not transfer
            named["disable"] = True
            super().__init__(*arguments, **named)  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> bool | None:
            """So many more have come."""
            self.n += n or 0
            if self._bytes:
                told(f"downloading {name}", int(self.n), int(self.total or 0))
            return None

    return Telling


def missing_files(folder: Path) -> list[str]:
    """Return which files a loadable model still needs: its configuration, all its weights."""
    needed = [_CONFIG]
    index = folder / _INDEX
    if index.exists():
        needed += _indexed(index)
    elif not list(folder.glob("*.safetensors")):
        needed.append("model.safetensors")
    return [name for name in needed if not (folder / name).exists()]


def _indexed(index: Path) -> list[str]:
    """The files that an index names. Raises UnusableModel."""
    weights = _read_json(index).get("weight_map", {})
    if not isinstance(weights, dict) or not all(isinstance(one, str) for one in weights.values()):
        raise UnusableModel(
            f"{index} names no files for its weights; take the folder as it was saved"
        )
    return sorted(set(weights.values()))


def check_folder(folder: Path, name: str) -> dict[str, Any]:
    """Return the configuration of a model that can be loaded without running code of its own.

    Raises UnusableModel.
    """
    if _CONFIG in (missing := missing_files(folder)):
        raise UnusableModel(
            f"{name} is no model: {folder} has no {_CONFIG}; name a folder that save_pretrained "
            "or `swarmnode export model` wrote"
        )
    if missing:
        raise UnusableModel(
            f"{name} has no complete weights in safetensors, the only form that is loaded "
            f"({missing[0]} is missing in {folder}): pickled weights (.bin, .pt) can run code"
        )
    config = _read_json(folder / _CONFIG)
    kind = config.get("model_type")
    if kind not in CONFIG_MAPPING_NAMES:
        why = "needs code of its own" if "auto_map" in config else "is of an unknown architecture"
        raise UnusableModel(
            f"{name} {why} (model_type {kind!r}), and no code that comes with a model is run; "
            "choose a model that transformers itself knows"
        )
    if "quantization_config" in config:
        raise UnusableModel(f"{name} is quantized and cannot be trained; choose the full model")
    return config


def open_model(folder: Path, name: str, dtype: torch.dtype) -> PreTrainedModel:
    """Load the weights on the CPU, without dropout. Raises UnusableModel."""
    check_folder(folder, name)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
        )
    except Exception as error:
        # What broken files make transformers raise has no end; safetensors has an error of its own.
        raise UnusableModel(
            f"{name} is no causal language model that transformers can load: {first_line(error)}"
        ) from error
    return model.eval()


def open_tokenizer(folder: Path, name: str) -> PreTrainedTokenizerFast:
    """Load a fast tokenizer. Raises UnusableModel."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True
        )
    except (ValueError, OSError, KeyError, ImportError) as error:
        raise UnusableModel(
            f"the tokenizer of {name} cannot be loaded without code or packages of its own: "
            f"{first_line(error)}"
        ) from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise UnusableModel(f"{name} has no fast tokenizer (tokenizer.json), which is needed")
    return tokenizer


def open_codec(
    folder: Path, name: str, model: PreTrainedModel, *, thinking: bool, instruction: str
) -> ChatCodec:
    """Load the tokenizer with every end token that the model or it declares.

    Raises UnusableModel.
    """
    tokenizer = open_tokenizer(folder, name)
    declared = (
        model.generation_config.eos_token_id if model.generation_config else None,
        model.config.get_text_config().eos_token_id,
        tokenizer.eos_token_id,
    )
    end_ids = [one for each in declared for one in _as_list(each)]
    if not end_ids:
        raise UnusableModel(
            f"{name} declares no end token, so that no answer would ever end; choose another model"
        )
    rows = int(model.get_output_embeddings().weight.shape[0])
    return ChatCodec(tokenizer, end_ids, rows, thinking=thinking, instruction=instruction)


def _as_list(value: int | list[int] | None) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UnusableModel(f"{path} cannot be read: {first_line(error)}") from error
    return content if isinstance(content, dict) else {}


def first_line(error: Exception) -> str:
    """What an error says, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".") if lines else type(error).__name__
