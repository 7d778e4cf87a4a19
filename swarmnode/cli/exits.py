"""Exit codes, and the one way a command ends on a user's mistake."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit code says; docs/errors.md has the same table."""

    OK = 0
    FAILURE = 1
    """Something of ours failed; the message says what."""
    USAGE = 2
    """The command line asks for something that does not exist or contradicts itself."""
    CONFIG = 3
    """A settings file or a folder cannot be used."""
    NOT_RUNNING = 4
    """The command asks a running node, and none runs with this home."""
    INTERRUPTED = 130
    """Ctrl-C; what was done is kept."""


class Mistake(Exception):
    """A user's mistake: one line that names the remedy, and the exit code."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code
