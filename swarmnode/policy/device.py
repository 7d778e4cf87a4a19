"""Where a policy computes, and in which number format.

CUDA before MPS before the processor, unless the user says otherwise. The format is what the matrix
products run in; parameters that are trained stay float32. Sampling's random numbers are drawn on
the processor in any case, so that they are the same everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import torch

from swarmnode.config.policy import Device, Precision
from swarmnode.policy.names import UnusableModel

_TRIAL_SHAPE = (256, 576, 1536)
"""Rows, inputs and outputs of the trial: a layer of a small model under a round's rows."""
_TRIAL_SECONDS = 0.4
_WORTH = 1.5
"""How much faster a shorter format must be before its coarser numbers are taken."""


def choose_device(wanted: Device) -> torch.device:
    """Return the device. Raises UnusableModel when the wanted one isn't there."""
    there = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if wanted == "auto":
        return torch.device(next(name for name, found in there.items() if found))
    if not there[wanted]:
        raise UnusableModel(
            f"policy.device = {wanted}: torch sees no such device here; leave it at auto"
        )
    return torch.device(wanted)


def choose_dtype(
    wanted: Precision,
    device: torch.device,
    *,
    frozen: bool,
    rate: Callable[[torch.dtype], float] | None = None,
) -> torch.dtype:
    """Return the format of the products on a device; `frozen` says that weights are not trained.

    On a processor it pays only to keep weights in it, which those that are trained can't be.
    `rate` measures multiplications a second in a format, by default with a trial on the processor;
    it is asked only where the processor has instructions for bfloat16: without them (AVX2) bfloat16
    is ten to twenty times slower than float32 (reference/performance.md section 1).
    """
    if wanted != "auto":
        return {
            "float32": torch.float32,
            "bfloat16": torch.bfloat16,
            "float16": torch.float16,
        }[wanted]
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32
    if device.type != "cpu" or not frozen or not _has_bfloat16():
        return torch.float32
    measured = rate or gemm_rate
    faster = measured(torch.bfloat16) > _WORTH * measured(torch.float32)
    return torch.bfloat16 if faster else torch.float32


def available_bytes(device: torch.device) -> int:
    """Return the memory that a process could still take on the device."""
    if device.type == "cuda":
        free, _total = torch.cuda.mem_get_info(device)
        return int(free)
    return int(psutil.virtual_memory().available)


def gemm_rate(dtype: torch.dtype) -> float:
    """Measure matrix products a second on the processor: the best of what fits the trial."""
    rows, inputs, outputs = _TRIAL_SHAPE
    left = torch.ones(rows, inputs, dtype=dtype)
    right = torch.ones(inputs, outputs, dtype=dtype)
    left @ right
    best, end = float("inf"), time.perf_counter() + _TRIAL_SECONDS
    while time.perf_counter() < end:
        started = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - started)
    return 1.0 / best


def _has_bfloat16() -> bool:
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
