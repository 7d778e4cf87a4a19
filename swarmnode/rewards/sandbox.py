"""Locks the running process for good: what it may call, allocate and write from then on.

Knows nothing of scoring. On Linux (x86-64 and aarch64) an allow-list seccomp filter admits only
talking over descriptors that are already open, memory that is not executable, time, randomness and
the end of the process; everything else fails with EPERM. Landlock (landlock.py) forbids files and
ports once more, where the kernel has it. Resource limits come on top; root is not bound by that of
processes, so that it is the filter which keeps a worker from forking. On macOS and on other
processors there are resource limits alone: nothing there keeps a verifier that was taken over from
opening files, so only verifiers that evaluate no text may run (they are the only ones).

A locked process can still read its own memory, so it must hold no secret. Imports fail afterwards:
whatever is needed must be imported before.

Source: seccomp(2), the kernel's Documentation/userspace-api/seccomp_filter.rst.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys
from enum import StrEnum
from typing import NamedTuple

from swarmnode.rewards import landlock

RECURSION_LIMIT = 500
INTEGER_DIGITS = 1000
"""Digits beyond which int() and str() refuse, since they take quadratic time."""
DESCRIPTORS = 4
"""Descriptor numbers that may be in use: the standard streams and one socket."""

PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2

RET_ALLOW = 0x7FFF0000
RET_EPERM = 0x00050001
RET_KILL_PROCESS = 0x80000000

# The fields of struct seccomp_data: nr, arch, instruction_pointer, args[6].
NUMBER_OFFSET, ARCHITECTURE_OFFSET, THIRD_ARGUMENT_OFFSET = 0, 4, 32
PROT_EXEC = 4

LOAD_WORD = 0x20
JUMP_EQUAL = 0x15
JUMP_ANY_BIT = 0x45
RETURN = 0x06


class Architecture(NamedTuple):
    """What seccomp must know of a processor."""

    audit: int
    """Its AUDIT_ARCH number; calls by any other convention kill the process."""
    column: int
    """Its column of ALLOWED and of NOT_EXECUTABLE."""


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 0), "aarch64": Architecture(0xC00000B7, 1)}

ALLOWED = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "futex": (202, 98),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "getrandom": (318, 278),
}
"""Numbers on x86-64 and aarch64 of the calls that are let through with any arguments."""

NOT_EXECUTABLE = {"mmap": (9, 222), "mprotect": (10, 226)}
"""Calls let through unless their third argument (the protection) asks for PROT_EXEC."""


class Confinement(StrEnum):
    """What holds a locked process on a machine, apart from resource limits."""

    FILTER_AND_LANDLOCK = "system calls and landlock"
    FILTER = "system calls"
    NOTHING = "limits"


class SockFilterProgram(ctypes.Structure):
    """The kernel's struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def lock(memory_bytes: int) -> None:
    """Lock this process; it cannot be undone.

    `memory_bytes` is the address space that it may add to what it has. Standard streams are
    pointed at the null device: what hostile text provokes must reach no terminal and no file.

    Raises OSError when the kernel refuses, in which case the process must not go on.
    """
    _silence()
    sys.setrecursionlimit(RECURSION_LIMIT)
    sys.set_int_max_str_digits(INTEGER_DIGITS)
    limits = _limits(memory_bytes)
    if filtered():
        _give_up_privileges()
        landlock.forbid_files_and_ports()
    for name, value in limits.items():
        resource.setrlimit(name, (value, value))
    if filtered():
        _filter_system_calls(ARCHITECTURES[platform.machine()])


def limit_cpu(seconds: float) -> None:
    """End this process by SIGPROF once it has used so much CPU time from now on; 0 lifts the limit.

    CPU time, not elapsed time, so that nobody suffers for a machine that is busy. The kernel ends
    the process at its own next tick, whatever the interpreter is doing. Code that took the process
    over can lift the limit; it is then ended for the time that passes.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)


def rehearse(memory_bytes: int) -> None:
    """Lock a fork and end it, so that a machine which refuses is known before work comes.

    Raises RuntimeError when the lock fails.
    """
    process_id = os.fork()
    if process_id == 0:
        try:
            lock(memory_bytes)
            os._exit(0)
        finally:
            os._exit(1)
    if os.waitpid(process_id, 0)[1] != 0:
        raise RuntimeError(
            "this machine refuses the sandbox that scoring needs: resource limits, and on Linux "
            "a seccomp filter; allow them (in a container: its seccomp profile) and start again"
        )


def filtered() -> bool:
    """Whether system calls can be filtered on this machine."""
    return confinement() is not Confinement.NOTHING


def confinement() -> Confinement:
    """What holds a locked process on this machine."""
    return confinement_of(sys.platform, platform.machine(), landlock.version())


def confinement_of(system: str, processor: str, landlock_version: int) -> Confinement:
    """The same of any machine, by `sys.platform`, `platform.machine()` and landlock's version."""
    if system != "linux" or processor not in ARCHITECTURES:
        return Confinement.NOTHING
    return Confinement.FILTER_AND_LANDLOCK if landlock_version else Confinement.FILTER


def _silence() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.close(null)


def _limits(memory_bytes: int) -> dict[int, int]:
    limits = {
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NPROC: 0,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: DESCRIPTORS,
    }
    if sys.platform == "linux":
        limits[resource.RLIMIT_AS] = _address_space() + memory_bytes
    return limits


def _address_space() -> int:
    """Bytes of address space in use (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _give_up_privileges() -> None:
    """No program that is started gains any; both the filter and landlock ask for it."""
    _control(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _filter_system_calls(architecture: Architecture) -> None:
    program = compile_filter(architecture)
    filter_program = SockFilterProgram(len(program) // 8, program)
    _control(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_program))


def _control(*arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {arguments[0]} failed")


def compile_filter(architecture: Architecture) -> bytes:
    """The filter as BPF instructions, each of eight bytes."""
    allowed = [numbers[architecture.column] for numbers in ALLOWED.values()]
    guarded = [numbers[architecture.column] for numbers in NOT_EXECUTABLE.values()]
    guard = len(allowed) + len(guarded)
    program = [
        _instruction(LOAD_WORD, ARCHITECTURE_OFFSET),
        _instruction(JUMP_EQUAL, architecture.audit, 1, 0),
        _instruction(RETURN, RET_KILL_PROCESS),
        _instruction(LOAD_WORD, NUMBER_OFFSET),
    ]
    # Behind the comparisons stand: EPERM, then the guard's load and test, ALLOW, EPERM.
    for place, number in enumerate(allowed):
        program.append(_instruction(JUMP_EQUAL, number, guard - place + 2, 0))
    for place, number in enumerate(guarded, start=len(allowed)):
        program.append(_instruction(JUMP_EQUAL, number, guard - place, 0))
    program += [
        _instruction(RETURN, RET_EPERM),
        _instruction(LOAD_WORD, THIRD_ARGUMENT_OFFSET),
        _instruction(JUMP_ANY_BIT, PROT_EXEC, 1, 0),
        _instruction(RETURN, RET_ALLOW),
        _instruction(RETURN, RET_EPERM),
    ]
    return b"".join(program)


def _instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, operand)
