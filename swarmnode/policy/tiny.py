"""Small Llama decoders with tied embeddings and a seeded random start, the built-in `tiny` first.

Knows shapes and nothing of text. Small enough that a laptop's core trains them in seconds or
minutes; a transformers architecture, so that everything built on it also serves models from the
hub. Pre-training starts from the same.
"""

from __future__ import annotations

from typing import Protocol

import torch
from transformers.models.llama.configuration_llama import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM

from swarmnode.config.policy import TinySettings
from swarmnode.policy.tokenizer import END_ID, PAD_ID

POSITIONS = 4096


class Shape(Protocol):
    """What settings say of a decoder."""

    @property
    def width(self) -> int:
        """Of the hidden states."""

    @property
    def layers(self) -> int:
        """How many."""

    @property
    def heads(self) -> int:
        """Of a layer's attention."""

    @property
    def feed_forward_width(self) -> int:
        """Of a layer's inner part."""

    @property
    def initial_deviation(self) -> float:
        """Of the random starting weights."""


def decoder_config(
    shape: Shape, *, vocabulary_size: int, positions: int, end_id: int, pad_id: int | None = None
) -> LlamaConfig:
    """The transformers configuration; equal arguments give equal ones."""
    return LlamaConfig(
        vocab_size=vocabulary_size,
        hidden_size=shape.width,
        intermediate_size=shape.feed_forward_width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=positions,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        initializer_range=shape.initial_deviation,
        pad_token_id=pad_id,
        bos_token_id=None,
        eos_token_id=end_id,
    )


def random_start(config: LlamaConfig, seed: int) -> LlamaForCausalLM:
    """A model in float32 on the CPU, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).float()


def build_tiny(settings: TinySettings, vocabulary_size: int, seed: int) -> LlamaForCausalLM:
    """The built-in model before its warm start."""
    config = decoder_config(
        settings,
        vocabulary_size=vocabulary_size,
        positions=POSITIONS,
        end_id=END_ID,
        pad_id=PAD_ID,
    )
    return random_start(config, seed).eval()
