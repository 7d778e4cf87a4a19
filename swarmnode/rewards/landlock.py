"""Landlock: the running process gives up every file and every port, where the kernel has it.

A second wall behind the system call filter, made of other code: a call that the filter should let
through by mistake still opens nothing. Kernels differ in what they know (versions 1 to 7 and on);
each is told to forbid all that it knows of, and one without landlock leaves the process as it was.

Source: landlock(7), the kernel's Documentation/userspace-api/landlock.rst, its uapi header.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

CREATE_RULESET, RESTRICT_SELF = 444, 446
"""Numbers of the system calls, the same on every processor."""

ASK_VERSION = 1

FILES = {1: 13, 2: 14, 3: 15, 5: 16}
"""How many rights over files there are, by the version that brought the last of them."""

PORTS_VERSION, PORTS = 4, 2
"""Binding and connecting TCP ports."""

SCOPES_VERSION, SCOPES = 6, 2
"""Abstract unix sockets and signals to processes outside."""


def version() -> int:
    """The kernel's version of landlock; 0 where it has none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, _call(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION))


def forbid_files_and_ports() -> bool:
    """Forbid them to this process for good; whether this kernel does.

    The process must have given up new privileges. Raises OSError where a kernel that has landlock
    refuses.
    """
    known = version()
    if not known:
        return False
    attributes = ruleset(known)
    descriptor = _call(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    # The descriptor stays open when this fails, in a process that must not go on.
    if descriptor < 0 or _call(RESTRICT_SELF, descriptor, 0) != 0:
        raise OSError(ctypes.get_errno(), "landlock refused its ruleset")
    os.close(descriptor)
    return True


def ruleset(known: int) -> bytes:
    """The kernel's struct landlock_ruleset_attr that forbids all that version `known` can."""
    files = FILES[max(brought for brought in FILES if brought <= known)]
    attributes = struct.pack("=Q", (1 << files) - 1)
    if known >= PORTS_VERSION:
        attributes += struct.pack("=Q", (1 << PORTS) - 1)
    if known >= SCOPES_VERSION:
        attributes += struct.pack("=Q", (1 << SCOPES) - 1)
    return attributes


def _call(*arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(*arguments))
