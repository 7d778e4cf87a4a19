"""Files that appear whole or not at all, and stay."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes, *, secret: bool = False) -> None:
    """Replace a file in one step, so that a reader never sees half of it. Raises OSError.

    A `secret` one may be opened by its owner alone (0600), from its first byte on.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    mode = 0o600 if secret else 0o666  # less the user's mask
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode("utf-8") if isinstance(content, str) else content)
    temporary.replace(path)


def synchronize(path: Path) -> None:
    """Let what a file or a folder holds outlast a loss of power. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
