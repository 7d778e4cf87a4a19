"""Opening a sequence-classification model: from a folder or the hub, its scores told in log-odds.

Only safetensors are loaded and no code of a model is run. A model whose head isn't in its files is
refused: transformers would start it at random, and it would judge at random.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification
from transformers.modeling_utils import PreTrainedModel

from swarmnode.config.channels import RewardModel
from swarmnode.policy.device import choose_dtype
from swarmnode.policy.hub import check_folder, first_line, hub_folder, open_tokenizer
from swarmnode.policy.names import ModelKind, UnusableModel, model_kind
from swarmnode.policy.preflight import counted_parameters
from swarmnode.reward_models.judging import Head, Judge
from swarmnode.reward_models.reading import Reading

_FLOAT = 4
_SHAPE = ("hidden_size", "num_attention_heads", "intermediate_size")


@dataclass(frozen=True, slots=True)
class JudgeMemory:
    """Bytes that a reward model needs."""

    weights: int
    judging: int
    """Beside the weights, while it judges; freed afterwards."""


def reward_model_folder(wanted: RewardModel) -> Path:
    """Return where its files are, downloading them where they are missing.

    Raises UnusableModel.
    """
    if os.sep in wanted.model and Path(wanted.model).expanduser().is_dir():
        return Path(wanted.model).expanduser()
    kind = model_kind(wanted.model)
    if kind is not ModelKind.HUB:
        raise UnusableModel(
            f"{wanted.model} generates and can't judge; rewards.channels.models wants a "
            "sequence-classification model: a folder or an id of the hub"
        )
    return hub_folder(wanted.model, wanted.revision)


def open_judge(wanted: RewardModel, device: torch.device, tokens: int) -> Judge:
    """Load a reward model that judges so many tokens at once. Raises UnusableModel."""
    folder, name = reward_model_folder(wanted), wanted.model
    check_folder(folder, name)
    config = _config(folder, name)
    head = _head(config, wanted)
    model = _model(folder, name, judging_dtype(device)).to(device)
    tokenizer = open_tokenizer(folder, name)
    text = config.get_text_config()
    longest = getattr(text, "max_position_embeddings", None) or wanted.max_tokens
    limit = min(wanted.max_tokens, int(longest), int(tokenizer.model_max_length))
    reading = Reading(tokenizer, limit)
    try:
        reading.row("1 + 1", "2")
    except Exception as error:
        # A template is a program of the model's authors, and may raise what it likes.
        raise UnusableModel(
            f"the chat template of {name} cannot show a question with its answer: "
            f"{first_line(error)}"
        ) from error
    return Judge(model, reading, head, tokens)


def judging_dtype(device: torch.device) -> torch.dtype:
    """Float32 on a processor, so that a score is the same there whatever else it computes."""
    if device.type == "cpu":
        return torch.float32
    return choose_dtype("auto", device, frozen=True)


def judge_memory(wanted: RewardModel, device: torch.device, tokens: int) -> JudgeMemory:
    """Estimate what it will need, reading no weights. Raises UnusableModel.

    While a layer is computed: its input, the normed one, what attention and feed-forward add;
    queries, keys, values and the attended ones; three of the inner width; and attention's weights
    where the model has to write them down.
    """
    folder, name = reward_model_folder(wanted), wanted.model
    check_folder(folder, name)
    config = _config(folder, name)
    text = config.get_text_config()
    try:
        width, heads = (int(getattr(text, each)) for each in _SHAPE[:2])
        parameters = counted_parameters(folder)
    except (AttributeError, TypeError, OSError, ValueError) as error:
        raise UnusableModel(
            f"the memory that {name} needs is unknown: {first_line(error)}"
        ) from error
    inner = getattr(text, _SHAPE[2], None) or 4 * width
    in_layer = 8 * width + 3 * inner
    written = 0 if _attends_in_place(config) else 2 * heads * min(tokens, wanted.max_tokens)
    positions = max(tokens, wanted.max_tokens)
    size = judging_dtype(device).itemsize
    return JudgeMemory(parameters * size, positions * _FLOAT * (in_layer + written))


def _attends_in_place(config: Any) -> bool:
    kinds: Any = AutoModelForSequenceClassification
    kind = kinds._model_mapping.get(type(config), None)
    return bool(getattr(kind, "_supports_sdpa", False))


def _config(folder: Path, name: str) -> Any:
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except Exception as error:
        # What broken files make transformers raise has no end.
        raise UnusableModel(
            f"{name} has a config.json that is no model's: {first_line(error)}"
        ) from error


def load_classifier(folder: Path, trouble: str, **further: Any) -> Any:
    """What transformers loads, from safetensors alone and without code of the model.

    `further` are arguments of its own. Raises UnusableModel, which begins with `trouble`.
    """
    try:
        return AutoModelForSequenceClassification.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            **further,
        )
    except Exception as error:
        # As above: safetensors has an error of its own for files that are cut off.
        raise UnusableModel(f"{trouble}: {first_line(error)}") from error


def _model(folder: Path, name: str, dtype: torch.dtype) -> PreTrainedModel:
    trouble = f"{name} is no sequence-classification model that transformers can load"
    model, loaded = load_classifier(folder, trouble, dtype=dtype, output_loading_info=True)
    if missing := sorted(loaded["missing_keys"]):
        raise UnusableModel(
            f"{name} has no {missing[0]} in its files and would judge at random; take a model "
            "that was saved with its classification head"
        )
    made: PreTrainedModel = model.eval().requires_grad_(False)
    return made


def _head(config: Any, wanted: RewardModel) -> Head:
    """Which of the outputs is paid. Raises UnusableModel, which names the labels that there are."""
    labels: dict[str, int] = config.label2id
    if not wanted.label and config.num_labels == 1:
        return Head(0, alone=True, probability=wanted.scale == "probability")
    outputs = range(config.num_labels)
    if strange := [name for name, place in labels.items() if place not in outputs]:
        raise UnusableModel(
            f"{wanted.model} has a label {strange[0]!r} without an output of its own: its "
            "config.json contradicts itself"
        )
    if wanted.label not in labels:
        known = ", ".join(sorted(labels))
        raise UnusableModel(
            f"{wanted.model} has {config.num_labels} outputs; set the label of "
            f"rewards.channels.models {wanted.name!r} to the one that is paid: {known}"
        )
    alone = config.num_labels == 1 or config.problem_type == "multi_label_classification"
    return Head(labels[wanted.label], alone=alone, probability=wanted.scale == "probability")
