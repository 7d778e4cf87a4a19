"""What a phase held is given back when it ends: sampling's keys, values and logits, or a step's
activations.

Everything of a phase is freed by then, but an allocator keeps it for what comes next. Where phases
differ in what they ask for, what is kept is the sum of both in pieces that fit neither, and other
programs, or a second engine on the same device, can't have it. What is given back must be taken
anew, which costs: docs/models.md has figures. Knows no model.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from swarmnode.policy.sampling import Sampled

if TYPE_CHECKING:
    from swarmnode.policy.engine import Engine


def release_memory(device: torch.device) -> bool:
    """Give what is free on a device back to it; whether there was a way to.

    On a processor that is glibc's: macOS gives pages back by itself.
    """
    if device.type == "cuda":
        # Cycles would keep whole segments.
        gc.collect()
        torch.cuda.empty_cache()
        return True
    if device.type == "mps":
        torch.mps.empty_cache()
        return True
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return trim is not None


class ReleasingEngine:
    """An engine whose memory is given back after each call; what it samples is the same."""

    def __init__(self, engine: Engine, device: torch.device) -> None:
        self._engine = engine
        self._device = device

    @property
    def name(self) -> str:
        """The name of the engine within."""
        return self._engine.name

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
        try:
            return self._engine.sample(
                prompts, completions_per_prompt, max_new_tokens, temperature, end_ids, generator
            )
        finally:
            release_memory(self._device)
