"""A network of this process's own, with one counter for all that travels in it; and CPU seconds.

In a private network namespace nobody else sends anything, so that the loopback's counter holds
exactly what the peers under measurement sent: payload, encryption, TCP's and IP's headers and
acknowledgements, each once. Unix sockets, over which p2pd is spoken to, don't count. Linux only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_CLONE_NEWNET = 0x40000000
_SIOCSIFFLAGS = 0x8914
_SCHEDULED = 2  # of a process, as clock_getcpuclockid makes a clock's number of its id
_UP_AND_RUNNING = 0x1 | 0x40


class NotAllowed(Exception):
    """This process may not have a network of its own; the text is one line."""


def enter_private_network() -> None:
    """Move this process and its future children into a new network with a loopback alone.

    Must be called by the main thread. Raises NotAllowed.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "unshare"):
        raise NotAllowed("network namespaces exist on Linux alone")
    if libc.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise NotAllowed(f"a private network namespace can't be made ({reason}): run it as root")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _UP_AND_RUNNING))


def loopback_bytes(table: str | None = None) -> int:
    """Bytes sent over the loopback since it is there; `table` as in /proc/self/net/dev."""
    text = Path("/proc/self/net/dev").read_text() if table is None else table
    (line,) = (line for line in text.splitlines() if line.strip().startswith("lo:"))
    return int(line.partition(":")[2].split()[8])


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters of all nodes together, since their start."""

    sent: int
    """Bytes on the loopback."""
    python: float
    """CPU seconds of the Python processes."""
    p2pd: float
    """CPU seconds of their children."""


def reading(process_ids: Sequence[int]) -> Reading:
    """The counters now, of these processes and what they started."""
    python = p2pd = 0.0
    for process_id in process_ids:
        process = psutil.Process(process_id)
        python += _seconds(process)
        p2pd += sum(map(_seconds, process.children(recursive=True)))
    return Reading(loopback_bytes(), python, p2pd)


def resident_mib(process_ids: Sequence[int]) -> float:
    """Mean resident memory of these processes with what they started."""
    total = 0
    for process_id in process_ids:
        process = psutil.Process(process_id)
        for each in (process, *process.children(recursive=True)):
            total += each.memory_info().rss
    return total / len(process_ids) / 2**20


def _seconds(process: psutil.Process) -> float:
    # The scheduler's own account: that of /proc counts ticks, and misses what runs between them.
    return time.clock_gettime((~process.pid << 3) | _SCHEDULED)
