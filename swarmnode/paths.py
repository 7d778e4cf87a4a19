"""Every place on disk, per operating system; SWARMNODE_HOME puts all of them under one folder.

Creates nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import platformdirs

HOME_VARIABLE = "SWARMNODE_HOME"


def cache_folder(environment: Mapping[str, str]) -> Path:
    """What can be made again: warm starts. Safe to delete at any time."""
    if home := environment.get(HOME_VARIABLE):
        return Path(home) / "cache"
    return platformdirs.user_cache_path("swarmnode")
