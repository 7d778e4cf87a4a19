"""The child supervisor: starts, watches, kills and respawns child processes, and speaks to them.

A child serves one request at a time over a unix socket pair that it inherits. A request is a frame
(frames.py) `[method, work_seconds, apart, payload]`, an answer one `[outcome, value]`. Time limits
are real seconds, kept by a thread of each child's own, so that they hold under any event loop and
any clock. The module knows nothing of what children do.

The child's half is `serve`, or `zygote.serve_forked`, whose answers wrap those of its workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from typing import Any, Literal, NamedTuple, Protocol

from swarmnode.frames import read_frame, unpacked, write_frame
from swarmnode.progress import Step, listening


class Refusal(Exception):
    """What a handler raises where the user must change something; the text is one line."""


Handlers = Mapping[str, Callable[[Any], Any]]
Outcome = Literal["ok", "refused", "failed", "worked", "killed"]

KILL_GRACE_SECONDS = 5.0
PR_SET_PDEATHSIG = 1


class ChildError(Exception):
    """What a call to a child can end in, apart from its answer."""


class ChildGone(ChildError):
    """The child died, or was never started; the request may or may not have taken effect."""


class ChildTimedOut(ChildError):
    """The child did not answer in time and was killed."""


class ChildFailed(ChildError):
    """The child's handler raised; the message is the child's, the child lives on."""


class ChildRefused(ChildFailed):
    """What the handler was asked for cannot be; the message is one line for the user."""


Cause = Literal["cpu", "time", "died", "garbled"]


class WorkKilled(ChildError):
    """The forked worker hung or died at this request and was replaced; the child lives on."""

    def __init__(self, message: str, cause: Cause, reached: int, seconds: float) -> None:
        super().__init__(message)
        self.cause = cause
        """It spent its CPU time, took too long, ended by itself, or answered what can't be read."""
        self.reached = reached
        """How far it had come with the request, as it said itself."""
        self.seconds = seconds
        """What it cost; see Worked."""


class Worked(NamedTuple):
    """The answer of a zygote's worker."""

    value: Any
    seconds: float
    """CPU seconds of the worker, as its zygote saw them; elapsed ones where the system doesn't tell
    or the worker was killed. 0.0 of a child without workers."""


class Host(Protocol):
    """What answers requests: a child of this machine, or one that is placed on another."""

    @property
    def process_id(self) -> int | None:
        """The operating system's id while it lives."""

    async def call(self, method: str, payload: object, timeout_seconds: float) -> Any:
        """Ask it and wait for its answer; raises as `Child.call` does."""


class Child:
    """One child process. Calls are answered in the order in which they were made.

    `respawn` lets a call start a dead child again and ask once more: right for a child without
    state. The owner must `close` it. Cancelling a `call` does not stop the child's work: the answer
    is dropped.
    """

    def __init__(
        self,
        module: str,
        *,
        name: str,
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        respawn: bool = False,
    ) -> None:
        self.name = name
        self.starts = 0
        self.step: Step | None = None
        """How far it is with what it was asked for, where it says so."""
        self._command = [sys.executable, "-m", module]
        self._arguments = list(arguments)
        self._environment = dict(environment or {})
        self._respawn = respawn
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ending = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    @property
    def process_id(self) -> int | None:
        """The operating system's id while the child lives."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def alive(self) -> bool:
        """Whether there is a process."""
        return self.process_id is not None

    async def begin(self) -> None:
        """Start it, for those who would wait for it to be there."""
        self.start()

    def start(self) -> None:
        """Start the child, ending first whatever is left of an earlier one."""
        self._reap()
        self._process, self._socket = spawn(self._command, self._arguments, self._environment)
        self.starts += 1

    async def call(
        self,
        method: str,
        payload: object,
        timeout_seconds: float,
        work_seconds: float | None = None,
    ) -> Any:
        """Ask the child and wait for its answer.

        After `timeout_seconds` the child itself counts as hung; `work_seconds` limits the forked
        worker of a zygote and should be much shorter, since it leaves the zygote alive.

        Raises ChildGone, ChildTimedOut (the child is dead then), ChildFailed or WorkKilled.
        """
        return (await self.work(method, payload, timeout_seconds, work_seconds)).value

    async def work(
        self,
        method: str,
        payload: object,
        timeout_seconds: float,
        work_seconds: float | None = None,
        *,
        apart: bool = False,
    ) -> Worked:
        """The same, telling what it cost.

        What is asked for `apart` is done by a worker of a zygote that sees nothing else.
        """
        request = [method, work_seconds, apart, payload]
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._answered, request, timeout_seconds)

    async def close(self) -> None:
        """End the child: by hanging up, by force after KILL_GRACE_SECONDS."""
        await asyncio.get_running_loop().run_in_executor(None, self.close_now)

    def close_now(self) -> None:
        """The same for callers without a loop; blocks for KILL_GRACE_SECONDS at most."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_GRACE_SECONDS)
        self._reap()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _answered(self, request: list[Any], timeout_seconds: float) -> Worked:
        # In the child's own thread, so that of several waiting calls one alone respawns it.
        if not self._respawn:
            return self._exchange(request, timeout_seconds)
        try:
            return self._exchange(request, timeout_seconds)
        except ChildGone:
            self.start()
            return self._exchange(request, timeout_seconds)

    def _exchange(self, request: list[Any], timeout_seconds: float) -> Worked:
        method = request[0]
        connection = self._socket
        if connection is None:
            raise ChildGone(f"{self.name} is not running")
        connection.settimeout(timeout_seconds)
        try:
            write_frame(connection, request)
            answer = self._after_steps(connection, time.monotonic() + timeout_seconds)
        except TimeoutError:
            self._reap()
            raise ChildTimedOut(f"{self.name}: {method} took over {timeout_seconds} s") from None
        except (OSError, EOFError):
            self._reap()
            raise ChildGone(f"{self.name} died during {method}") from None
        return _worked(f"{self.name}: {method}", answer)

    def _after_steps(self, connection: socket.socket, deadline: float) -> Any:
        """The answer; what comes before it says how far the child is. Raises as reading does."""
        try:
            while True:
                outcome, value = answer = read_frame(connection)
                if outcome != "step":
                    return answer
                self.step = Step(*value)
                if (left := deadline - time.monotonic()) <= 0.0:
                    raise TimeoutError
                connection.settimeout(left)
        finally:
            self.step = None

    def _reap(self) -> None:
        with self._ending:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
            if self._process is not None:
                # The session is the child's own, so the group holds its forked worker as well.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
                self._process = None


def _worked(asked: str, answer: Any) -> Worked:
    """What an answer says, or raises."""
    outcome, value = answer
    seconds = 0.0
    if outcome == "killed":
        cause, reached, seconds = value
        raise WorkKilled(f"{asked}: the worker was ended ({cause})", cause, reached, seconds)
    if outcome == "worked":
        body, seconds = value
        try:
            outcome, value = unpacked(body)
        except (EOFError, TypeError, ValueError):
            raise WorkKilled(f"{asked}: no answer", "garbled", 0, seconds) from None
    if outcome == "refused":
        raise ChildRefused(value)
    if outcome == "failed":
        raise ChildFailed(f"{asked}: {value}")
    return Worked(value, seconds)


def spawn(
    command: Sequence[str], arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process with one end of a socket pair, whose descriptor is its first argument."""
    ours, theirs = socket.socketpair()
    with theirs:  # in a session of its own: Ctrl-C reaches the parent alone, which decides
        process = subprocess.Popen(
            [*command, str(theirs.fileno()), *arguments],
            pass_fds=[theirs.fileno()],
            env=environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    return process, ours


def inherited_socket(arguments: Sequence[str]) -> socket.socket:
    """The child's end of the pair, from its command line: the first argument is the descriptor."""
    return socket.socket(fileno=int(arguments[0]))


def serve(handlers: Handlers, connection: socket.socket) -> None:
    """Answer requests until the parent hangs up; a handler's exception becomes its answer."""
    die_with_parent()
    with contextlib.suppress(EOFError, OSError):
        while True:
            method, _work_seconds, _apart, payload = read_frame(connection)
            with listening(lambda step: write_frame(connection, ["step", list(astuple(step))])):
                answer = answer_of(handlers, method, payload)
            write_frame(connection, answer)


def answer_of(handlers: Handlers, method: str, payload: Any) -> list[Any]:
    """`[outcome, value]` of a handler, whatever it raises."""
    try:
        return ["ok", handlers[method](payload)]
    except Refusal as error:
        return ["refused", str(error)]
    except Exception as error:
        traceback.print_exc(file=sys.stderr)
        return ["failed", f"{type(error).__name__}: {error}"]


def die_with_parent(told: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when its parent ends; a no-op outside Linux.

    Elsewhere the socket's end of file does the same, as soon as the running request is done.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, told)
