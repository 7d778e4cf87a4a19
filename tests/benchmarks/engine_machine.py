"""What this machine can do at most, measured beside what we reach: products and reading memory."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Machine:
    """Best rates of one thread seen so far in this run."""

    gflops: float
    """10^9 operations a second of sgemm on 1024 x 1024 matrices."""
    gigabytes: float
    """10^9 bytes read a second, from an array that no cache holds."""


def measure(tries: int = 5, megabytes: int = 256) -> Machine:
    """Measure both by process CPU time, the best of `tries`."""
    size = 1024
    left, right = torch.randn(size, size), torch.randn(size, size)
    array = torch.ones(megabytes * 2**18)
    return Machine(
        gflops=2e-9 * size**3 / min(seconds(lambda: left @ right) for _ in range(tries)),
        gigabytes=4e-9 * array.numel() / min(seconds(array.sum) for _ in range(tries)),
    )


def seconds(work: Callable[[], object]) -> float:
    """CPU seconds of this process that `work` takes; other processes hardly change them."""
    started = time.process_time()
    work()
    return time.process_time() - started
