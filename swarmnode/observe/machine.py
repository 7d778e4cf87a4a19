"""What a node's processes use, and what the machine has left: the form, and the look at them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import psutil

from swarmnode.observe.part import Part


class ProcessStatus(Part):
    """A process of the node."""

    name: str
    """daemon, network, p2pd, policy, scorer, or generator-1 and so on."""
    process_id: int | None
    """None while it is not running."""
    memory_bytes: int = 0
    processor_seconds: float = 0.0
    """Processor time since it began, of its own threads."""
    restarts: int = 0
    """Since the start."""

    @classmethod
    def of(cls, name: str, process_id: int | None, restarts: int) -> ProcessStatus:
        """A look at it; zeros where it is not there."""
        memory, seconds = 0, 0.0
        if process_id is not None:
            try:
                process = psutil.Process(process_id)
                memory, times = process.memory_info().rss, process.cpu_times()
                seconds = times.user + times.system
            except psutil.Error:
                pass
        return cls(
            name=name,
            process_id=process_id,
            memory_bytes=memory,
            processor_seconds=seconds,
            restarts=restarts,
        )


class MachineStatus(Part):
    """What the machine has."""

    processors: int
    memory_available_bytes: int
    memory_total_bytes: int
    disk_free_bytes: int
    """On the file system of the home."""

    @classmethod
    def of(cls, home: Path) -> MachineStatus:
        """A look at it."""
        memory = psutil.virtual_memory()
        return cls(
            processors=os.cpu_count() or 1,
            memory_available_bytes=memory.available,
            memory_total_bytes=memory.total,
            disk_free_bytes=shutil.disk_usage(home).free,
        )


def children_of(process_id: int) -> Sequence[int]:
    """The ids of a process's children; none where it is not there."""
    try:
        return [child.pid for child in psutil.Process(process_id).children()]
    except psutil.Error:
        return ()
