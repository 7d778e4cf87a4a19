"""What a checkpoint says of itself, read without a model; imports no torch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swarmnode.policy.checkpoint import CheckpointError

STATE = "state.json"


@dataclass(frozen=True, slots=True)
class Description:
    """What a checkpoint is of."""

    model: str
    version: int
    """Optimizer steps."""
    extra: Any
    """The JSON value that was saved with it."""


def describe(path: Path) -> Description:
    """Read the description of a verified checkpoint. Raises CheckpointError."""
    try:
        state = json.loads((path / STATE).read_bytes())
        return Description(str(state["model"]), int(state["version"]), state["extra"])
    except OSError as error:
        raise CheckpointError(f"{path / STATE} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise CheckpointError(
            f"{path} is of another version of this program: take the one that wrote it"
        ) from error
