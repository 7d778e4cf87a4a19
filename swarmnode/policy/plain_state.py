"""A tree of dictionaries, lists, tuples, plain values and tensors, as safetensors and JSON.

What torch.save writes is a pickle, and reading one can run code: so a state lies in two files that
hold nothing but data. Everything comes back as it was: keys that are numbers, tuples, NaN, and
every float bit for bit. Knows no trainer.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file

_KIND: Final = "#"
"""The key that tells a tensor, a tuple or a dictionary with other keys from an ordinary one."""


def save_state(tree: Any, folder: Path, name: str = "state") -> None:
    """Write NAME.safetensors and NAME.json.

    Raises TypeError for what is none of these; OSError.
    """
    tensors: dict[str, torch.Tensor] = {}
    values = json.dumps(_plain(tree, tensors))
    # Copies, since safetensors takes no two tensors that share memory.
    copies = {
        number: one.detach().cpu().clone(memory_format=torch.contiguous_format)
        for number, one in tensors.items()
    }
    save_file(copies, folder / f"{name}.safetensors")
    (folder / f"{name}.json").write_text(values, encoding="utf-8")


def load_state(folder: Path, name: str = "state") -> Any:
    """The tree, its tensors on the processor. Raises OSError, ValueError, SafetensorError."""
    tensors = load_file(folder / f"{name}.safetensors")
    values = (folder / f"{name}.json").read_text(encoding="utf-8")
    return _whole(json.loads(values), tensors)


def bytes_of(tree: Any) -> int:
    """Of all tensors in the tree."""
    tensors: dict[str, torch.Tensor] = {}
    _plain(tree, tensors)
    return sum(tensor.nbytes for tensor in tensors.values())


def _plain(tree: Any, tensors: dict[str, torch.Tensor]) -> Any:
    match tree:
        case torch.Tensor():
            name = str(len(tensors))
            tensors[name] = tree
            return {_KIND: "tensor", "name": name}
        case dict() if _KIND not in tree and all(isinstance(key, str) for key in tree):
            return {key: _plain(value, tensors) for key, value in tree.items()}
        case dict():
            pairs = [[_plain(key, tensors), _plain(value, tensors)] for key, value in tree.items()]
            return {_KIND: "dict", "pairs": pairs}
        case tuple():
            return {_KIND: "tuple", "items": [_plain(each, tensors) for each in tree]}
        case list():
            return [_plain(each, tensors) for each in tree]
        case None | bool() | int() | float() | str():
            return tree
    raise TypeError(f"a state can't hold a {type(tree).__name__}")


def _whole(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    match value:
        case {"#": "tensor", "name": str(name)}:
            return tensors[name]
        case {"#": "dict", "pairs": list(pairs)}:
            return {_whole(key, tensors): _whole(each, tensors) for key, each in pairs}
        case {"#": "tuple", "items": list(items)}:
            return tuple(_whole(each, tensors) for each in items)
        case dict():
            return {key: _whole(each, tensors) for key, each in value.items()}
        case list():
            return [_whole(each, tensors) for each in value]
    return value
