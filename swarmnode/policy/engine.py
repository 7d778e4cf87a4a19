"""What samples for a policy: one interface, and the choice of the engine for a model.

All engines draw from the model's whole distribution at the temperature: no top-p, no top-k, no
penalty. They share the model's parameters, so a call always samples from the weights as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import torch
from transformers.modeling_utils import PreTrainedModel

from swarmnode.policy import generation
from swarmnode.policy.decoder import Decoder
from swarmnode.policy.hf_engine import HuggingFaceEngine
from swarmnode.policy.matrices import UnsupportedModel
from swarmnode.policy.released import ReleasingEngine
from swarmnode.policy.sampling import Sampled
from swarmnode.policy.vllm_engine import VllmEngine, check_vllm

EngineChoice = Literal["auto", "native", "hf", "vllm"]


class Engine(Protocol):
    """Samples completions of token ids."""

    @property
    def name(self) -> str:
        """The engine's name in settings and logs."""
        ...

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        completions_per_prompt: int,
        max_new_tokens: int,
        temperature: float,
        end_ids: Sequence[int],
        generator: torch.Generator,
    ) -> list[tuple[Sampled, ...]]:
        """Sample completions to each prompt; temperature 0 takes the likeliest token.

        Prompts must not be empty. Every one of `end_ids` ends a row; none means no row ends by
        itself. The generator must be on the CPU and advances by the same amount whatever is
        sampled; its state decides what is sampled.
        """
        ...


class NativeEngine:
    """Our own loop over the native forward: each prompt once, finished rows compacted away."""

    name = "native"

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        completions_per_prompt: int,
        max_new_tokens: int,
        temperature: float,
        end_ids: Sequence[int],
        generator: torch.Generator,
    ) -> list[tuple[Sampled, ...]]:
        """Sample as `Engine.sample` says."""
        return generation.sample(
            self._decoder,
            prompts,
            completions_per_prompt,
            max_new_tokens,
            temperature,
            end_ids,
            generator,
        )


def check_engine(wanted: EngineChoice, device: torch.device) -> None:
    """Raise UnsupportedModel, in one line, where the engine can run no model here.

    Before weights are read, which can take minutes.
    """
    if wanted == "vllm":
        check_vllm(device)


def choose_engine(model: PreTrainedModel, wanted: EngineChoice, *, release: bool = False) -> Engine:
    """Return the engine for a model; `auto` takes `native` where it covers the architecture.

    `vllm` is taken only by name: it holds a second copy of the weights on the device. release:
    give what sampling held back after each call.
    Raises UnsupportedModel, with one line for the user, where the wanted engine can't serve it.
    """
    if wanted == "vllm":
        return VllmEngine(model, sleeps=release)
    engine = _in_process(model, wanted)
    return ReleasingEngine(engine, model.device) if release else engine


def _in_process(model: PreTrainedModel, wanted: EngineChoice) -> Engine:
    if wanted == "hf":
        return HuggingFaceEngine(model)
    try:
        return NativeEngine(Decoder(model))
    except UnsupportedModel:
        if wanted == "native":
            raise
        return HuggingFaceEngine(model)
