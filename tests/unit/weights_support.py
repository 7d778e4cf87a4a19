"""What the tests of weights share: tensors, and processes."""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor


def mixed() -> dict[str, Tensor]:
    """All that a model may hold, in an order that aligns nothing."""
    torch.manual_seed(0)
    return {
        "flag": torch.tensor(True),
        "half": torch.randn(3, 5).bfloat16(),
        "empty": torch.zeros(0, 4),
        "wide": torch.randn(7, 11),
        "transposed": torch.randn(6, 4).t(),
        "count": torch.tensor(12, dtype=torch.int64),
        "exact": torch.randn(5, dtype=torch.float64),
    }


def blank(like: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(tensor) for name, tensor in like.items()}


def child(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.weights_children", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def values(tensors: dict[str, Tensor]) -> set[float]:
    """The least and the greatest numbers in each of them: one, if all hold the same."""
    return {one.item() for tensor in tensors.values() for one in tensor.aminmax()}


def gathering(tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield copies of tensors one at a time; AssertionError where the memory of one is still held
    when the next is asked for."""
    alive: weakref.ref[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] | None = None
    for name, tensor in tensors.items():
        assert alive is None or alive() is None, "two parameters at a time"
        memory = tensor.numpy().copy()
        alive = weakref.ref(memory)
        copied = torch.from_numpy(memory)
        del memory
        yield name, copied
        del copied


def large() -> dict[str, Tensor]:
    """3 MB in tensors of several types, one of them large; none ends where a buffer does."""
    torch.manual_seed(3)
    return {
        "bias": torch.randn(7).bfloat16(),
        "matrix": torch.randn(500, 301),
        "embedding": torch.randn(1000, 601),
        "halves": torch.randn(333, 501).bfloat16(),
        "transposed": torch.randn(50, 41).t(),
        "last": torch.randn(11),
    }
