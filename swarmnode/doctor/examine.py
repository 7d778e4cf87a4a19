"""What the doctor looks at: facts of this machine, its packages, the home and the addresses.

Opens sockets for a moment and asks the system; changes nothing, imports nothing heavy and
downloads nothing.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import resource
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from swarmnode.home import Home
from swarmnode.network.choice import Choice, NoLibrary, chosen_library
from swarmnode.network.p2pd_binary import find_p2pd, problem_of
from swarmnode.observe.status import StatusDocument
from swarmnode.rewards import sandbox
from swarmnode.rewards.sandbox import Confinement

DIAL_SECONDS = 3.0

_MULTIADDR = re.compile(r"/(?P<kind>ip4|ip6|dns|dns4|dns6)/(?P<host>[^/]+)/tcp/(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Dialled:
    """An attempt to open a TCP connection; `error` is "" when it succeeded."""

    address: str
    error: str


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
        listen=() if status else tuple(Dialled(each, _not_free(each)) for each in listen),
        home=home.path,
        home_problem=_home_problem(home.path),
        home_mode=_mode(home.path),
        key_mode=_mode(home.key),
        disk_free_bytes=shutil.disk_usage(_existing(home.path)).free,
        memory_available_bytes=psutil.virtual_memory().available,
        descriptors=_descriptors(),
        bootstrap=_dialled(bootstrap, dial_seconds),
        sandbox=sandbox.confinement(),
        status=status,
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


def _parsed(address: str) -> tuple[str, str, int] | None:
    """Kind, host and port of a multiaddr that begins with a TCP address."""
    match = _MULTIADDR.match(address)
    return (match["kind"], match["host"], int(match["port"])) if match else None


def _not_free(address: str) -> str:
    """Why one cannot listen on the address; "" if one can."""
    parsed = _parsed(address)
    if parsed is None or parsed[2] == 0:
        return ""  # Any free port; and what is not TCP is tested by the network process alone.
    kind, host, port = parsed
    family = socket.AF_INET6 if kind.endswith("6") else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # Connections of an earlier node that are still closing are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            return getattr(error, "strerror", None) or str(error)
    return ""


def _dialled(addresses: Sequence[str], seconds: float) -> tuple[Dialled, ...]:
    """Dial all at once. A name may take longer to resolve: such a thread is left behind."""
    errors = {each: f"no answer within {seconds:.0f} s" for each in addresses}

    def dial(address: str) -> None:
        errors[address] = _undiallable(address, seconds)

    threads = [
        threading.Thread(target=dial, args=(each,), name=f"dial-{each}", daemon=True)
        for each in addresses
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds + 0.5
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return tuple(Dialled(each, errors[each]) for each in addresses)


def _undiallable(address: str, seconds: float) -> str:
    """Why no TCP connection can be opened; "" if one can."""
    parsed = _parsed(address)
    if parsed is None:
        return "no TCP address, so that it was not tested"
    _kind, host, port = parsed
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except TimeoutError:
        return f"no answer within {seconds:.0f} s"
    except (OSError, OverflowError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return ""
