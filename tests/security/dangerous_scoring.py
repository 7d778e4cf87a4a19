"""The scorer process with a verifier that really hangs, allocates, ends or crashes on command.

Started like the scorer: `python -m tests.security.dangerous_scoring DESCRIPTOR SWARM_ID MEMORY`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping

from swarmnode.rewards import verify
from swarmnode.scoring import main


def hang() -> None:
    """Spin for ever."""
    while True:
        pass


def allocate() -> None:
    """Take memory until there is none."""
    hoard = []
    while True:
        hoard.append(bytearray(1 << 20))


DANGERS: Mapping[str, Callable[[], object]] = {
    "hang": hang,
    "hang in one instruction": lambda: 9**9**9,
    "allocate": allocate,
    "allocate at once": lambda: [0] * 10**12,
    "exit": lambda: sys.exit(3),
    "leave": lambda: os._exit(3),
    "crash": lambda: ctypes.string_at(0),
    "recurse": lambda: DANGERS["recurse"](),
    "raise": lambda: int("raise"),
}


def dangerous_verify(
    task: str, answer: str, metadata: Mapping[str, object], completion: str
) -> float:
    """Does what the completion says; verifies it otherwise."""
    if completion in DANGERS:
        DANGERS[completion]()
    return verify(task, answer, metadata, completion)


if __name__ == "__main__":
    main(sys.argv[1:], dangerous_verify)
