"""Weights on disk: safetensors only, whole or not at all, checked before use.

Knows tensors and files, not what they were trained for.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from swarmnode.policy.spreading import spread_like

_DIGEST_KEY = "content_sha256"


def weights_digest(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256, in hex, of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.view(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def save_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write tensors with their digest under a temporary name, then rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        metadata = {_DIGEST_KEY: weights_digest(tensors), "format": "pt"}
        save_file(dict(tensors), temporary, metadata=metadata)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_weights(expected: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Read a file of `save_weights` that must hold tensors like these.

    ValueError when it is damaged or holds others, OSError when it cannot be read.
    """
    try:
        with safe_open(path, framework="pt") as file:
            digest = (file.metadata() or {}).get(_DIGEST_KEY)
            # The handle has `keys` but is no mapping: iterating over itself is not supported.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is no safetensors file: {error}") from error
    if digest != weights_digest(tensors):
        raise ValueError(f"{path} is damaged: its content does not match its digest")
    if {name: tensor.shape for name, tensor in tensors.items()} != {
        name: tensor.shape for name, tensor in expected.items()
    }:
        raise ValueError(f"{path} holds the weights of another model")
    return tensors


def fill(expected: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy what was read into its place, be that spread over processes that all read it."""
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(spread_like(tensors[name], tensor))


class WeightsCache:
    """A folder of weights by key. Safe among processes: files appear whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def load(self, key: str, module: nn.Module) -> bool:
        """Fill the module from the entry; False when there is none or it is damaged."""
        try:
            expected = distinct_tensors(module)
            fill(expected, read_weights(expected, self._path(key)))
        except (OSError, ValueError):
            return False
        return True

    def store(self, key: str, module: nn.Module) -> None:
        """Write an entry, replacing a damaged one."""
        save_weights(distinct_tensors(module), self._path(key))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"


def distinct_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors by name, those that share storage once: safetensors refuses twins."""
    seen: set[int] = set()
    tensors: dict[str, Tensor] = {}
    for name, tensor in module.state_dict().items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            tensors[name] = tensor
    return tensors
