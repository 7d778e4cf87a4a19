"""Which models a name can mean, known without torch.

`tiny` and `smollm2-135m` are built in; anything with a slash is a folder of this machine or, in the
form `owner/name`, a model of the Hugging Face hub.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from pathlib import Path

from swarmnode.process import Refusal

BUILT_IN = ("tiny", "smollm2-135m")

_NAME_BYTES = 128
"""The wire's limit (protocol/README.md)."""
_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


class UnusableModel(Refusal):
    """The model that the settings name cannot be had; the text is one line for the user."""


class UnknownModel(UnusableModel):
    """No model can have such a name."""


class ModelKind(Enum):
    """Where a model comes from."""

    TINY = "tiny"
    SMOLLM2 = "smollm2"
    FOLDER = "folder"
    HUB = "hub"


def model_kind(name: str) -> ModelKind:
    """Return what the name means. Raises UnknownModel, whose text says what exists."""
    if name in BUILT_IN:
        return ModelKind.TINY if name == "tiny" else ModelKind.SMOLLM2
    path = Path(name).expanduser()
    if os.sep in name and path.is_dir():
        return ModelKind.FOLDER
    if _HUB_ID.fullmatch(name):
        return ModelKind.HUB
    if os.sep in name:
        raise UnknownModel(f"there is no folder {name} and no model can be called so; check it")
    known = ", ".join(map(repr, BUILT_IN))
    raise UnknownModel(
        f"unknown model {name!r}: there are {known}, models of the Hugging Face hub such as "
        "'Qwen/Qwen2.5-0.5B-Instruct', and folders, written with a slash such as './model'"
    )


def policy_name(name: str) -> str:
    """Return what peers are told of a model: no path of this machine. Raises UnknownModel."""
    if model_kind(name) is not ModelKind.FOLDER:
        return name
    return Path(name).expanduser().resolve().name.encode()[:_NAME_BYTES].decode(errors="ignore")
