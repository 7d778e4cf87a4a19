"""A child for the sandbox's tests: attempts that a taken-over verifier could make, made for real.

Started like the scorer: `python -m tests.security.sandboxed_attempts DESCRIPTOR`.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from swarmnode.process import Handlers, inherited_socket, serve_forked
from swarmnode.rewards import sandbox

MEMORY_BYTES = 256 << 20


def prepare() -> Handlers:
    """Handlers that attack, and one that behaves."""
    surroundings = {
        "environment": dict(os.environ),
        "descriptors": len(os.listdir("/proc/self/fd")) - 1 if sys.platform == "linux" else 0,
    }
    return {
        "echo": lambda payload: payload,
        "surroundings": lambda payload: surroundings,
        "hang": hang,
        "allocate": lambda payload: len(bytearray(payload)),
        "allocate_for_ever": lambda payload: [0] * 10**12,
        "exit": sys.exit,
        "abort": lambda payload: os._exit(payload),
        "crash": lambda payload: ctypes.string_at(0),
        "big_power": lambda payload: 9**9**9,
        "print": lambda payload: print("x" * 100_000, file=sys.stderr, flush=True),
        "attempt": lambda name: attempt(ATTEMPTS[name]),
    }


def hang(payload: Any) -> None:
    """Spin for ever."""
    while True:
        pass


def attempt(action: Callable[[], object]) -> str:
    """The name of the error that the attempt ended in, or "succeeded"."""
    try:
        action()
    except BaseException as error:
        return type(error).__name__
    return "succeeded"


def _anonymous(protection: int) -> mmap.mmap:
    return mmap.mmap(-1, 4096, prot=protection)


ATTEMPTS: dict[str, Callable[[], object]] = {
    "read a file": partial(open, "/etc/passwd"),
    "write a file": partial(open, "/tmp/swarmnode-sandbox-marker", "w"),
    "list a folder": partial(os.listdir, "/"),
    "stat a file": partial(os.stat, "/"),
    "delete a file": partial(os.unlink, "/tmp/swarmnode-sandbox-marker"),
    "make a folder": partial(os.mkdir, "/tmp/swarmnode-sandbox-marker"),
    "open a socket": socket.socket,
    "open a socket pair": socket.socketpair,
    "fork": os.fork,
    "spawn": partial(subprocess.run, ["true"]),
    "shell": lambda: _raise_unless_zero(os.system("true")),
    "exec": partial(os.execv, "/bin/true", ["true"]),
    "kill the parent": lambda: os.kill(os.getppid(), signal.SIGKILL),
    "kill itself": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "map executable memory": partial(_anonymous, mmap.PROT_READ | mmap.PROT_EXEC),
    "raise a limit": lambda: __import__("resource").setrlimit(1, (-1, -1)),
    "change user": partial(os.setuid, 65534),
    "import a module": partial(__import__, "antigravity"),
}


def _raise_unless_zero(status: int) -> None:
    if status != 0:
        raise PermissionError(status)


if __name__ == "__main__":
    serve_forked(prepare, partial(sandbox.lock, MEMORY_BYTES), inherited_socket(sys.argv[1:]))
