"""Small random models of several families, with norms and biases that aren't ones and zeros."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.modeling_utils import PreTrainedModel

VOCABULARY = 50
NATIVE = ("llama", "qwen2", "qwen3")
"""The families with a native forward."""
_DECODERS: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


def small_model(family: str, *, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """A model of two layers with grouped heads in evaluation mode; `changes` go to its config."""
    torch.manual_seed(seed)
    if family == "gpt2":
        config = GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            initializer_range=0.3,
            eos_token_id=1,
        )
        return GPT2LMHeadModel(config).eval()
    build_config, build = _DECODERS[family]
    wanted = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "initializer_range": 0.3,
        "eos_token_id": 1,
        # Qwen3's heads needn't share out the width.
        **({"head_dim": 12} if family == "qwen3" else {}),
        **changes,
    }
    model = build(build_config(**wanted)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            elif name.endswith("bias"):
                parameter.uniform_(-0.5, 0.5)
    return model
