"""The secret in the page's address: drawn once for a home, so that a page outlives its node."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from pathlib import Path

from swarmnode.files import write_atomically

SECRET_BYTES = 18
LEAST_SHARED = 16
_FORM = re.compile(r"[A-Za-z0-9_-]{24}")


def load_or_draw_secret(path: Path) -> str:
    """The secret in a file of this user's alone; drawn anew where others may know it. OSError."""
    found = read_secret(path)
    if not found:
        found = secrets.token_urlsafe(SECRET_BYTES)
        write_atomically(path, found + "\n", secret=True)
    return found


def read_secret(path: Path) -> str:
    """The secret in the file; empty where there is none that others can't know."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            content = file.read(256).decode("ascii", "replace").strip()
    except OSError:
        return ""
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        return ""
    return content if _FORM.fullmatch(content) else ""


def shared_secret(path: Path) -> str:
    """The secret in a file that the user names and has set the permissions of. Raises OSError."""
    with path.open("rb") as file:
        found = file.read(256).decode("utf-8", "replace").strip()
    if len(found) < LEAST_SHARED or not found.isprintable() or " " in found:
        what = f"it holds no secret of {LEAST_SHARED} or more characters without spaces"
        raise OSError(errno.EINVAL, what, str(path))
    return found


def address_of(dashboard: str, secret: str) -> str:
    """The whole address of a page: what the status says of it, and the secret."""
    return f"{dashboard.rstrip('/')}/{secret}/"
