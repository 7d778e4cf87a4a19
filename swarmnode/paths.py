"""Every place on disk, per operating system; SWARMNODE_HOME puts the node's own under one folder.

Creates nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import platformdirs

HOME_VARIABLE = "SWARMNODE_HOME"
CACHE_VARIABLE = "SWARMNODE_CACHE"
MODELS_FOLDER = "models"
"""Under the cache: models that were converted."""


def cache_folder(environment: Mapping[str, str]) -> Path:
    """What can be made again: warm starts, converted models. Safe to delete and to share.

    CACHE_VARIABLE puts it elsewhere than under the home.
    """
    if folder := environment.get(CACHE_VARIABLE):
        return Path(folder)
    if home := environment.get(HOME_VARIABLE):
        return Path(home) / "cache"
    return platformdirs.user_cache_path("swarmnode")


def home_folder(environment: Mapping[str, str]) -> Path:
    """What can't be made again: the key, checkpoints, the store. One node at a time works in it."""
    if home := environment.get(HOME_VARIABLE):
        return Path(home).absolute()
    return platformdirs.user_data_path("swarmnode")


def locks_folder(user: int) -> Path:
    """Where the homes of one user on this machine see each other, whatever their environment.

    The same for a login shell and for a service, which XDG_RUNTIME_DIR and TMPDIR are not.
    """
    return Path("/tmp") / f"swarmnode-{user}"


def shared_memory_folder(user: int) -> Path:
    """Where processes of one user hand each other what is too large for a pipe.

    In memory where the system has a folder for that (Linux), else on a disk that it caches.
    """
    memory = Path("/dev/shm")
    return (memory if memory.is_dir() else Path("/tmp")) / f"swarmnode-weights-{user}"
