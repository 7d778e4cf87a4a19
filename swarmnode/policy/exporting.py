"""A policy as a folder of transformers: config.json, safetensors and tokenizer.json.

What is written loads with AutoModelForCausalLM.from_pretrained and AutoTokenizer.from_pretrained in
a program that knows nothing of this one, and gives the same ids and the same answers. An adapter
alone is written in the form of peft. Knows no checkpoints and no model cards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import save_file
from transformers import GenerationConfig
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy.lora import adapter_config, adapter_weights, has_adapters, merged_weights
from swarmnode.policy.policy import Policy
from swarmnode.policy.tokenizer import END_ID, PAD_ID
from swarmnode.process import Refusal

ExportForm = Literal["merged", "adapter"]
"""The whole model, an adapter's part of it included; or the adapter alone."""


class CannotExport(Refusal):
    """The policy has no such form; one line for the user."""


def export_policy(policy: Policy, folder: Path, form: ExportForm) -> None:
    """Write the policy into an empty folder. Raises CannotExport, and OSError."""
    if form == "merged":
        _plain(policy).save_pretrained(folder)
    elif has_adapters(policy.model):
        # Whoever loads it must know the base: peft's file names it.
        config = adapter_config(policy.model)
        config.base_model_name_or_path = policy.name
        config.save_pretrained(folder)
        weights = adapter_weights(policy.model)
        save_file(weights, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    else:
        raise CannotExport(
            f"{policy.name} was trained as a whole and has no adapter; leave --adapter out"
        )
    policy.codec.save(folder)


def _plain(policy: Policy) -> PreTrainedModel:
    """The model without adapters' layers, over the policy's own weights where it has none."""
    model = policy.model
    state = merged_weights(model) if has_adapters(model) else model.state_dict()
    with torch.device("meta"):
        plain = type(model)(model.config)
    plain.load_state_dict(state, assign=True)
    plain.tie_weights()
    plain.generation_config = (
        GenerationConfig(do_sample=False, eos_token_id=END_ID, pad_token_id=PAD_ID)
        if policy.name == "tiny"
        else model.generation_config
    )
    return plain
