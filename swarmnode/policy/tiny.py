"""The built-in model `tiny`: a small Llama decoder with tied embeddings and a seeded random start.

Knows its own shape and nothing of text. Small enough that a laptop's core trains it in seconds;
a transformers architecture, so that everything built on it also serves models from the hub.
"""

from __future__ import annotations

import torch
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from swarmnode.config.policy import TinySettings
from swarmnode.policy.tokenizer import END_ID, PAD_ID


def tiny_config(settings: TinySettings, vocabulary_size: int) -> LlamaConfig:
    """Return the transformers configuration of `tiny`; equal settings give equal configurations."""
    return LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=settings.width,
        intermediate_size=settings.feed_forward_width,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        max_position_embeddings=4096,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=settings.initial_deviation,
        pad_token_id=PAD_ID,
        bos_token_id=None,
        eos_token_id=END_ID,
    )


def build_tiny(settings: TinySettings, vocabulary_size: int, seed: int) -> LlamaForCausalLM:
    """Return a randomly started model in float32 on the CPU, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(tiny_config(settings, vocabulary_size))
    return model.float().eval()
