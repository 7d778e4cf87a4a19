"""A child for the sandbox's tests: attempts that a taken-over verifier could make, made for real.

Started like the scorer: `python -m tests.security.sandboxed_attempts DESCRIPTOR`.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from swarmnode.process import Handlers, inherited_socket
from swarmnode.rewards import sandbox
from swarmnode.zygote import SOCKET, Progress, serve_forked

MEMORY_BYTES = 256 << 20
MARKER = Path("/tmp/swarmnode-sandbox-marker")
EXECUTABLE = mmap.PROT_READ | mmap.PROT_EXEC


@dataclass(frozen=True)
class Attempt:
    """Something that must be refused, and the errors that say so."""

    action: Callable[[], object]
    refusals: tuple[str, ...] = ("PermissionError",)


def shell() -> None:
    """Run a command by the C library, which reports failure by its result."""
    if os.system(f"touch {MARKER}") != 0:
        raise PermissionError


ATTEMPTS = {
    "read a file": Attempt(partial(open, "/etc/passwd")),
    "write a file": Attempt(partial(open, MARKER, "w")),
    "list a folder": Attempt(partial(os.listdir, "/")),
    "stat a file": Attempt(partial(os.stat, "/")),
    "make a folder": Attempt(partial(os.mkdir, MARKER)),
    "delete a file": Attempt(partial(os.unlink, MARKER)),
    "open a socket": Attempt(socket.socket),
    "open a socket pair": Attempt(socket.socketpair),
    "open a pipe": Attempt(os.pipe),
    "duplicate a descriptor": Attempt(partial(os.dup, 2)),
    "fork": Attempt(os.fork),
    "spawn": Attempt(partial(subprocess.Popen, ["/usr/bin/touch", str(MARKER)])),
    "run a shell": Attempt(shell),
    "exec": Attempt(partial(os.execv, "/bin/sh", ["sh", "-c", f"touch {MARKER}"])),
    "kill the parent": Attempt(lambda: os.kill(os.getppid(), signal.SIGKILL)),
    "signal itself": Attempt(lambda: os.kill(os.getpid(), signal.SIGUSR1)),
    "map executable memory": Attempt(lambda: mmap.mmap(-1, 4096, prot=EXECUTABLE)),
    "raise a limit": Attempt(
        partial(resource.setrlimit, resource.RLIMIT_FSIZE, (-1, -1)), ("ValueError",)
    ),
    "change user": Attempt(partial(os.setuid, 65534)),
    "import a module": Attempt(partial(__import__, "antigravity"), ("ModuleNotFoundError",)),
}


def prepare(progress: Progress) -> Handlers:
    """Handlers that attack, and some that behave."""
    descriptors = len(os.listdir("/proc/self/fd")) - 1 if sys.platform == "linux" else 0
    surroundings = {"environment": dict(os.environ), "descriptors": descriptors}
    # Left open on purpose, for workers to inherit: the zygote's own, above and below a gap.
    for number in (50, 500):
        os.dup2(os.open(os.devnull, os.O_RDWR), number)

    def reach(place: int) -> None:
        progress.reach(place)
        os._exit(3)

    return {
        "reach": reach,
        "answer": lambda count: bytes(count),
        # Twice in one write, so that something comes unasked before the next question can.
        "garble": lambda body: os.write(SOCKET, 2 * (struct.pack(">I", len(body)) + body)),
        "drip": drip,
        "use": use,
        "sleep": time.sleep,
        "spin": spin,
        "echo": lambda payload: payload,
        "process id": lambda payload: os.getpid(),
        "surroundings": lambda payload: surroundings,
        "allocate": lambda count: len(bytearray(count)),
        "print": lambda text: (print(text, flush=True), os.write(2, text.encode())),
        "hang": hang,
        "exit": sys.exit,
        "leave": os._exit,
        "attempt": attempt,
    }


def hang(payload: Any) -> None:
    """Spin for ever."""
    while True:
        pass


def drip(payload: Any) -> None:
    """Begin an answer and never end it, a byte at a time."""
    os.write(SOCKET, struct.pack(">I", 1 << 20))
    while True:
        os.write(SOCKET, b"x")
        time.sleep(0.01)


def use(seconds: float) -> None:
    """Spin in one instruction of the interpreter after another, under a limit of CPU time."""
    sandbox.limit_cpu(seconds)
    while True:
        pow(3, 10**6)


def spin(seconds: float) -> None:
    """Use so much CPU time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def attempt(name: str) -> str:
    """The name of the error that the attempt ended in, or "succeeded"."""
    try:
        ATTEMPTS[name].action()
    except Exception as error:
        return type(error).__name__
    return "succeeded"


if __name__ == "__main__":
    serve_forked(prepare, partial(sandbox.lock, MEMORY_BYTES), inherited_socket(sys.argv[1:]))
