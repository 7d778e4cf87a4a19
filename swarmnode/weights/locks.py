"""Locks of the kernel on files that may be removed: a lock on a removed file is none.

A lock ends with its holder, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class LockedFile:
    """An open file. Whoever has it open keeps its content, whatever becomes of its name."""

    def __init__(self, path: Path, *, make: bool = True) -> None:
        """Open it, made for this user alone if it isn't there and may be. Raises OSError."""
        self._path = path
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if make else 0)
        self.descriptor = os.open(path, flags, 0o600)

    @property
    def is_there(self) -> bool:
        """Whether its name still leads to it."""
        try:
            named = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(named, os.fstat(self.descriptor))

    def lock(self, *, shared: bool) -> bool:
        """Lock it, for this one alone or beside others who share it; False where others are in the
        way. Never waits."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self.descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def wait(self) -> None:
        """Lock it for this one alone as soon as others are done."""
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def unlock(self) -> None:
        """Let others lock it."""
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close it, which ends the lock."""
        os.close(self.descriptor)
