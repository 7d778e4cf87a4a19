"""What the tests of checkpoints share: small checkpoints, limits of the process."""

from __future__ import annotations

import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swarmnode.policy.checkpoint import Saved, save_checkpoint

FILES = ("first.bin", "second.bin")


def save(folder: Path, number: int = 0, size: int = 5000) -> Saved:
    """A checkpoint whose content follows from the number that is asked for."""

    def write(temporary: Path) -> None:
        for name in FILES:
            (temporary / name).write_bytes(random.Random(f"{number}/{name}").randbytes(size))

    return save_checkpoint(folder, number, len(FILES) * size, write)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def limited(kind: int, value: int) -> Iterator[None]:
    """A soft limit of this process on a resource."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
