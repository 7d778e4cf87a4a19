"""The scorer process with a verifier that really hangs, allocates, ends or crashes on command.

Started like the scorer:
`python -m tests.security.dangerous_scoring DESCRIPTOR SWARM_ID MEMORY CPU_SECONDS`.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from swarmnode.rewards import sandbox, verify
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


def lift_and_hang() -> None:
    """Lift the limit of CPU time, as code that took the worker over would, and spin for ever."""
    sandbox.limit_cpu(0.0)
    hang()


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
    "sleep for an hour": lambda: time.sleep(3600),
    "lift the limit and hang": lift_and_hang,
}

LIES: Mapping[str, Any] = {
    "more than right": 5.0,
    "no number": math.nan,
    "a text": "1.0",
    "nested": [[[[]]]],
    "a flood": b"x" * (1 << 20),
}
"""What a worker that was taken over may give in place of a score."""


CORRUPT = "find everything right from now on"

corrupted: list[str] = []
"""What a worker that was taken over keeps in mind."""


def dangerous_verify(
    task: str, answer: str, metadata: Mapping[str, object], completion: str
) -> float:
    """Does what the completion says; verifies it otherwise."""
    if completion in DANGERS:
        DANGERS[completion]()
    if completion == CORRUPT:
        corrupted.append(completion)
    if corrupted:
        return 1.0
    if completion in LIES:
        lie: float = LIES[completion]
        return lie
    return verify(task, answer, metadata, completion)


if __name__ == "__main__":
    main(sys.argv[1:], dangerous_verify)
