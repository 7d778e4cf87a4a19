"""A file in memory, mapped, with room for a plan's tensors and their header."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import torch
from torch import Tensor

from swarmnode.weights.locks import LockedFile


class Buffer:
    """A buffer's file, mapped into this process for as long as the object is."""

    def __init__(self, path: Path, *, make_bytes: int | None = None) -> None:
        """Map the file that is there, or one of `make_bytes` bytes. Raises OSError."""
        self.file = LockedFile(path, make=make_bytes is not None)
        try:
            if make_bytes is not None:
                _reserve(self.file.descriptor, make_bytes)
            size = os.fstat(self.file.descriptor).st_size
            self.data: Tensor = torch.frombuffer(
                mmap.mmap(self.file.descriptor, size), dtype=torch.uint8
            )
        except BaseException:
            self.file.close()
            raise

    def close(self) -> None:
        """Let go of the file; the memory goes with the object."""
        self.file.close()


def _reserve(descriptor: int, size: int) -> None:
    """Give a file its memory now: one that finds none later would be ended by a signal (SIGBUS)."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    os.ftruncate(descriptor, size)
