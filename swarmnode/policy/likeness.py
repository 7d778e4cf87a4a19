"""What must be the same on two machines for the same requests to give the same numbers.

The versions of what computes, our own code, and the bits of a small computation: processors of
other kinds round otherwise.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import swarmnode
from swarmnode.policy.device import choose_device

PACKAGES = ("torch", "transformers", "tokenizers", "numpy")
DIGITS = 12
"""Of a digest, in hex: enough to tell two apart."""


def likeness() -> dict[str, str]:
    """Parts by name, each equal on machines that are alike."""
    device = choose_device("auto")
    parts = {name: importlib.metadata.version(name) for name in PACKAGES}
    parts["Python"] = platform.python_version()
    parts["the code of swarmnode"] = _digest_of_code(Path(swarmnode.__file__).parent)
    parts["what it computes on"] = (
        torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    )
    parts["the last bits of sums"] = _digest_of_sums()
    return parts


def _digest_of_code(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:DIGITS]


def _digest_of_sums() -> str:
    """Of what a step of a small decoder consists of, on the processor."""
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    width = drawn(64, 192).requires_grad_()
    hidden = drawn(8, 33, 64)
    heads = hidden.view(8, 33, 4, 16).transpose(1, 2)
    mixed = scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    logits = torch.nn.functional.silu(mixed.transpose(1, 2).reshape(8 * 33, 64) @ width)
    loss = cross_entropy(logits, torch.arange(8 * 33) % 192)
    (gradient,) = torch.autograd.grad(loss, width)

    step = gradient / (gradient.square().sqrt() + 1e-8)
    drawn_tokens = torch.multinomial(logits.softmax(-1), 1, generator=generator)
    digest = hashlib.sha256()
    for part in (logits, loss, gradient, step, logits.logsumexp(-1), drawn_tokens):
        digest.update(part.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()[:DIGITS]
