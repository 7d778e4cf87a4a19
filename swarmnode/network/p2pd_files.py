"""What a running p2pd needs on disk: its key for a moment, and two sockets.

Knows no p2pd. Invariants: a key file is readable by its owner alone and lies there only while it
is needed; only sockets of our own that nobody listens on are ever removed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psutil

from swarmproto import public_key_of

SOCKET_PREFIX: Final = "hivemind-"
"""hivemind's own, of both its sockets."""

_IDENTITY_NAME: Final = "identity"
_SETTLED_SECONDS: Final = 10.0
_SOCKET_NAME_BYTES: Final = 40
_SOCKET_PATH_MAX: Final = 104
_IDENTITY_PREFIX: Final = bytes.fromhex("08011240")
"""A protobuf with key type Ed25519 and 64 bytes: seed and public key."""


@contextlib.contextmanager
def identity_file(folder: Path, private_key: bytes) -> Iterator[Path]:
    """A key file for p2pd to read; it lies on disk only while p2pd starts."""
    path = folder / f"{_IDENTITY_NAME}-{os.getpid()}-{secrets.token_hex(4)}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(handle, "wb") as file:
            file.write(_IDENTITY_PREFIX + private_key + public_key_of(private_key))
        yield path
    finally:
        path.unlink(missing_ok=True)


def socket_folder(folder: Path) -> Path:
    """`folder`, or the system's for temporary files where the path is too long for a socket."""
    fits = len(os.fsencode(folder)) + _SOCKET_NAME_BYTES <= _SOCKET_PATH_MAX
    return folder if fits else Path(tempfile.gettempdir())


def sweep(folder: Path, now: float) -> int:
    """Remove sockets and keys that dead processes of ours left in a folder; how many.

    `now` is in seconds since 1970: a socket younger than 10 s may not be listened on yet.
    """
    sockets = [path for path in folder.glob(f"{SOCKET_PREFIX}p2p*.sock") if _is_dead(path, now)]
    keys = [path for path in folder.glob(f"{_IDENTITY_NAME}-*-*") if _is_orphan(path)]
    for path in (*sockets, *keys):
        path.unlink(missing_ok=True)
    return len(sockets) + len(keys)


def _is_orphan(key: Path) -> bool:
    process = key.name.split("-")[1]
    return process.isdecimal() and not psutil.pid_exists(int(process))


def _is_dead(path: Path, now: float) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    ours = stat.S_ISSOCK(status.st_mode) and status.st_uid == os.getuid()
    if not ours or status.st_mtime > now - _SETTLED_SECONDS:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
