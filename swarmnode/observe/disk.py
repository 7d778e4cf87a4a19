"""What a node keeps on disk: each place, what it is for, how large it is, and what bounds it.

Only looks. Files that come and go meanwhile are left out.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from swarmnode.home import Home
from swarmnode.paths import MODELS_FOLDER, cache_folder, locks_folder, shared_memory_folder

WARM_STARTS_FOLDER = "warm-starts"
_REMADE = "not bounded; made again where it is missing, so delete it whenever you like"


@dataclass(frozen=True, slots=True)
class Place:
    """A file or a folder of a node."""

    name: str
    path: Path
    bytes: int
    """On disk, everything below it included; 0 where nothing is there."""
    about: str
    """What it is for."""
    bound: str = ""
    """What keeps it from growing; empty where it doesn't grow."""


def occupied(path: Path) -> int:
    """Bytes on disk of a file, or of all files below a folder; links are not followed."""
    try:
        below = _below(path) if path.is_dir() and not path.is_symlink() else 0
        return _blocks(path.lstat()) + below
    except OSError:
        return 0


def _below(folder: str | Path) -> int:
    # The status looks every two seconds while a dashboard is open, so that no Path is made here.
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                total += _blocks(entry.stat(follow_symlinks=False))
                if entry.is_dir(follow_symlinks=False):
                    total += _below(entry.path)
    return total


def _blocks(status: os.stat_result) -> int:
    return status.st_blocks * 512


def places(home: Home, environment: Mapping[str, str], user: int) -> Sequence[Place]:
    """Every place that a node with this home and environment uses; `user` is its user's id."""
    database = (home.database, *(home.path.glob(f"{home.database.name}-*")))
    cache = cache_folder(environment)
    rows = [
        ("key", [home.key, *home.path.glob("key.old-*")], "who this node is; keep it to yourself",
         "former keys stay until you delete them"),
        ("instance", [home.instance_file], "tells this home from a copy of it", ""),
        ("swarms", [home.swarms], "swarm files", ""),
        ("checkpoints", [home.checkpoints], "what was learned",
         "the newest, as daemon.checkpoints says"),
        ("store", database, "rounds, rollouts, own bundles, peers, events",
         "daemon.rollout_bytes, daemon.published_bytes, daemon.rounds_kept"),
        ("damaged", [*home.path.glob("*.bad-*")], "damaged files that were set aside",
         "stay until you delete them"),
        ("reserved", [home.reserved], "numbers that must never be used twice", ""),
        ("log", [home.log], "what happened", "six files of 8 MiB a process"),
        ("metrics", [home.metrics], "what the trackers write", "not bounded; metrics.trackers"),
        ("status", [home.status_socket], "where `swarmnode status` asks", ""),
        ("secret", [home.dashboard_secret], "opens the dashboard", ""),
        ("generators", [home.generators_key], "what generators elsewhere come in with", ""),
        ("lock", [home.lock_file], "held while a node runs here", ""),
        ("warm starts", [cache / WARM_STARTS_FOLDER], "built-in models with their first lessons",
         _REMADE),
        ("models", [cache / MODELS_FOLDER], "models that were converted", _REMADE),
        ("locks", [locks_folder(user)], "keeps two nodes from one key", ""),
        ("weights", [shared_memory_folder(user)], "between trainer and generators, in memory", ""),
    ]  # fmt: skip
    return [
        Place(name, paths[0], sum(map(occupied, paths)), about, bound)
        for name, paths, about, bound in rows
        if paths
    ]
