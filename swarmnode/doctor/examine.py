"""What the doctor looks at: facts of this machine, its packages, the home and the addresses.

Opens sockets for a moment and asks the system; changes nothing, imports nothing heavy and
downloads nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import os
import resource
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from swarmnode.doctor.dialling import DIAL_SECONDS, Dialled, dialled, not_free
from swarmnode.home import Home
from swarmnode.network.choice import Choice, NoLibrary, chosen_library
from swarmnode.network.p2pd_binary import find_p2pd, problem_of
from swarmnode.observe.status import StatusDocument
from swarmnode.rewards import sandbox
from swarmnode.rewards.sandbox import Confinement

RELEASED = 1_793_000_000.0
"""A moment in October 2026: no clock that goes right is behind it."""
_NOT_KEPT = 0x0040
"""STA_UNSYNC of adjtimex(2)."""


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """What was found on this machine."""

    python: tuple[int, int]
    packages: dict[str, str]
    """Version by distribution, for those that matter and are installed."""
    library: str
    """What the network would run on; "" where that is not installed."""
    library_problem: str
    """Why it can't run, or ""; see network.choice."""
    p2pd: Path | None
    p2pd_problem: str
    """Why it is not to be started, or ""; see network.p2pd_binary."""
    p2pd_executable: bool
    listen: Sequence[Dialled]
    """Addresses to listen on; an error says why not."""
    home: Path
    home_problem: str
    """Why files cannot be made there, or ""."""
    home_mode: int | None
    """None where there is no home yet."""
    key_mode: int | None
    """None where there is no key yet."""
    disk_free_bytes: int
    memory_available_bytes: int
    descriptors: int
    """Files that a process may have open: the soft limit."""
    bootstrap: Sequence[Dialled]
    sandbox: Confinement
    """What holds the scorer, apart from resource limits."""
    status: StatusDocument | None
    """Of the running node, if one runs."""
    clock_kept: bool | None = None
    """Whether something keeps the clock by network time; None where the system does not tell."""
    now: float = RELEASED
    """Seconds since 1970, by this machine."""


def examine(
    home: Home,
    listen: Sequence[str],
    bootstrap: Sequence[str],
    status: StatusDocument | None,
    dial_seconds: float = DIAL_SECONDS,
    transport: Choice = "auto",
) -> MachineFacts:
    """Look at this machine; `listen` and `bootstrap` are multiaddrs, dialled all at once."""
    library, library_problem = _library(transport)
    p2pd = find_p2pd()
    return MachineFacts(
        python=sys.version_info[:2],
        packages=_versions("swarmnode-rl", "swarmnode", "torch", "hivemind", "libp2p"),
        library=library,
        library_problem=library_problem,
        p2pd=p2pd,
        p2pd_problem=problem_of(p2pd),
        p2pd_executable=p2pd is not None and os.access(p2pd, os.X_OK),
        # A running node holds its ports itself.
        listen=() if status else tuple(Dialled(each, not_free(each)) for each in listen),
        home=home.path,
        home_problem=_home_problem(home.path),
        home_mode=_mode(home.path),
        key_mode=_mode(home.key),
        disk_free_bytes=shutil.disk_usage(_existing(home.path)).free,
        memory_available_bytes=psutil.virtual_memory().available,
        descriptors=_descriptors(),
        bootstrap=dialled(bootstrap, dial_seconds),
        sandbox=sandbox.confinement(),
        status=status,
        clock_kept=clock_kept(),
        now=time.time(),
    )


def _library(transport: Choice) -> tuple[str, str]:
    try:
        return chosen_library(transport), ""
    except NoLibrary as error:
        return "", str(error)


def _versions(*names: str) -> dict[str, str]:
    versions = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _mode(path: Path) -> int | None:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that there is."""
    return next(each for each in (path, *path.parents) if each.exists())


def _home_problem(path: Path) -> str:
    """Why no file can be made in the folder, or the folder itself not; "" if all is well."""
    existing = _existing(path)
    if not existing.is_dir():
        return f"{existing} is no folder"
    try:
        if existing == path:
            # A file without a name: it tells of full and read-only disks and leaves nothing.
            tempfile.TemporaryFile(dir=path).close()
        elif not os.access(existing, os.W_OK | os.X_OK):
            return f"no folder can be made in {existing}"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _descriptors() -> int:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


class _Timex(ctypes.Structure):
    """The beginning of the kernel's struct timex, with room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("frequency", ctypes.c_long),
        ("largest_error", ctypes.c_long),
        ("estimated_error", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def clock_kept() -> bool | None:
    """Whether the kernel was told that the clock follows a reference; None outside Linux."""
    if sys.platform != "linux":
        return None
    told = _Timex()
    if ctypes.CDLL(None).adjtimex(ctypes.byref(told)) < 0:
        return None
    return not told.status & _NOT_KEPT
