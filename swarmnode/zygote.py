"""The child's half of a zygote: it prepares once, then works in locked forks that may be killed.

Our own work is done in a worker that has never seen a stranger's text. Work that is asked for
*apart*, which is that on a stranger's texts, is done in a fork of its own that ends with its
answer: whatever takes a worker over can falsify nothing but that answer, and goes on with nothing
afterwards. The zygote passes frames on without unpacking a worker's, keeps to their limits of size
and time, and counts what they cost; it knows nothing of what the handlers do.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import msgpack

from swarmnode.frames import MAX_FRAME_BYTES, read_body, read_frame, write_body, write_frame
from swarmnode.process import Cause, Handlers, answer_of, die_with_parent

DEFAULT_WORK_SECONDS = 60.0
"""What a worker may take for a request that sets no limit of its own."""

STARVED = 10
"""So many times its limit may pass before a worker that waits for the processor is given up."""

WRITE_SECONDS = 10.0
"""After so long a worker that reads no request counts as hung."""

APART_ANSWER_BYTES = 256 * 1024
"""The largest answer of a worker apart: unpacked, it stays below 20 MiB."""

SOCKET = 3
"""The one descriptor of a worker beside the standard streams."""

_PLACE = struct.Struct("Q")


class Progress:
    """How far the worker at work has come: eight bytes that all workers share with the zygote."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _PLACE.size)

    def reach(self, place: int) -> None:
        """Say that the work is at `place`, 0 at its beginning."""
        _PLACE.pack_into(self._shared, 0, place)

    @property
    def reached(self) -> int:
        """What was said last; any number where the worker is not what it was."""
        return int(_PLACE.unpack_from(self._shared)[0])


def serve_forked(
    prepare: Callable[[Progress], Handlers], lock: Callable[[], None], connection: socket.socket
) -> None:
    """Answer requests in forked, locked workers; kill and replace one that hangs or dies.

    `prepare` runs once, before the first fork, and should import everything; `lock` runs in each
    worker before its first request, with no descriptor open but the standard streams and SOCKET.
    """
    die_with_parent()
    progress = Progress()
    handlers = prepare(progress)
    # What was made so far is never collected, so that forks go on sharing its memory.
    gc.collect()
    gc.freeze()
    own: _Worker | None = None
    with contextlib.suppress(EOFError, OSError):
        while True:
            body = read_body(connection)
            work_seconds, apart = _limits_of(body)
            worker = _Worker(handlers, lock) if apart or own is None else own
            limit = APART_ANSWER_BYTES if apart else MAX_FRAME_BYTES
            answer = _asked(worker, body, work_seconds or DEFAULT_WORK_SECONDS, limit, progress)
            if apart:
                worker.kill()
            else:
                own = worker if worker.alive else None
            write_frame(connection, answer)
    if own is not None:
        own.kill()


def _limits_of(body: bytes) -> tuple[float | None, bool]:
    """Work seconds of a request, and whether it is to be done apart; its payload stays packed."""
    request = msgpack.Unpacker(max_buffer_size=MAX_FRAME_BYTES)
    request.feed(body)
    request.read_array_header()
    request.skip()
    return request.unpack(), request.unpack()


def _asked(
    worker: _Worker, body: bytes, seconds: float, limit: int, progress: Progress
) -> list[Any]:
    """`["worked", [answer, seconds]]`, or `["killed", [cause, reached, seconds]]`."""
    started = time.monotonic()
    progress.reach(0)
    cause: Cause = "died"
    try:
        answer = worker.ask(body, seconds, limit)
        return ["worked", [answer, worker.seconds()]]
    except TimeoutError:
        cause = "time"
    except (OSError, EOFError):
        pass
    if worker.kill() == signal.SIGPROF:
        cause = "cpu"
    return ["killed", [cause, progress.reached, time.monotonic() - started]]


class _Worker:
    """A fork of the zygote that serves one request after another until it is killed."""

    def __init__(self, handlers: Handlers, lock: Callable[[], None]) -> None:
        self.alive = True
        self._told = 0.0
        self._elapsed = 0.0
        self._socket, theirs = socket.socketpair()
        self._process_id = os.fork()
        if self._process_id == 0:
            try:
                _serve_locked(handlers, lock, theirs)
            finally:
                os._exit(1)
        theirs.close()

    def ask(self, body: bytes, seconds: float, limit: int) -> bytes:
        """The worker's answer, packed. Raises TimeoutError, EOFError, OSError.

        Nobody is blamed for a busy machine; see `seconds_left` (Linux).
        """
        if select.select([self._socket], [], [], 0)[0]:
            raise EOFError("it has answered what nobody asked, or is gone")
        asked, used = time.monotonic(), self._cpu_seconds()

        def left() -> float:
            elapsed = time.monotonic() - asked
            waits = elapsed >= seconds and self._waits_for_the_machine()
            return seconds_left(seconds, elapsed, self._cpu_seconds() - used, waits=waits)

        self._socket.settimeout(WRITE_SECONDS)
        write_body(self._socket, body)
        answer = read_body(self._socket, limit, left)
        self._elapsed = time.monotonic() - asked
        return answer

    def _waits_for_the_machine(self) -> bool:
        """Whether it is ready to go on and not asleep by its own will; False off Linux."""
        try:
            with open(f"/proc/{self._process_id}/stat", encoding="ascii") as status:
                return status.read().rsplit(")", 1)[1].split()[0] in ("R", "D")
        except OSError:
            return False

    def seconds(self) -> float:
        """CPU seconds of its last answer, and of its beginning once; elapsed ones off Linux."""
        if sys.platform != "linux":
            return self._elapsed
        total = self._cpu_seconds()
        spent, self._told = total - self._told, total
        return spent

    def _cpu_seconds(self) -> float:
        if sys.platform != "linux":
            return 0.0
        # The process's CPU clock by its id: CPUCLOCK_SCHED of the kernel's posix-timers.h.
        return time.clock_gettime((~self._process_id << 3) | 2)

    def kill(self) -> int:
        """End the worker for certain; the signal that ended it, 0 where none did or it was dead."""
        if not self.alive:
            return 0
        self.alive = False
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process_id, signal.SIGKILL)
        _, status = os.waitpid(self._process_id, 0)
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def seconds_left(seconds: float, elapsed: float, used: float, *, waits: bool) -> float:
    """How long a worker may go on that has `seconds`, of which so many passed and were CPU time.

    One that `waits` for the processor when its time is up may go on until it has used a quarter of
    it as CPU time, for STARVED times as long at most; one that sleeps may not.
    """
    if elapsed < seconds:
        return seconds - elapsed
    return max(seconds / 4 - used, 0.0) if waits and elapsed < STARVED * seconds else 0.0


def _serve_locked(handlers: Handlers, lock: Callable[[], None], theirs: socket.socket) -> None:
    """Drop every descriptor but one, lock, and answer until the zygote hangs up."""
    os.dup2(theirs.detach(), SOCKET)
    os.closerange(SOCKET + 1, os.sysconf("SC_OPEN_MAX"))
    connection = socket.socket(fileno=SOCKET)
    die_with_parent()
    lock()
    while True:
        method, _work_seconds, _apart, payload = read_frame(connection)
        write_frame(connection, answer_of(handlers, method, payload))
