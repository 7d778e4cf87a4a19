"""The status socket: a unix socket of the user alone; it answers a line with a JSON document.

    status          the status document            peers           what is known of each peer
    rollouts N      the last N own bundles         why PEER        what is held against a peer

A connection is one request and one answer, then it is closed. It only reads: nothing about a node
can be changed here. The documents come from callables; the server knows nothing of a node.
Invariants: mode 0600 from the first moment; at most MAX_CONNECTIONS at a time; every step has a
time limit, so that a client which sends or reads slowly is dropped and delays nobody; no failure of
a client or of a callable reaches the rest of the program. `ask` is the client's half.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import stat
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from swarmnode.observe.words import plain

MAX_CONNECTIONS = 16
MAX_REQUEST_BYTES = 256
MAX_ANSWER_BYTES = 16 * 1024 * 1024
MAX_ROLLOUTS = 100
REQUEST_SECONDS = 2.0
DOCUMENT_SECONDS = 5.0
SEND_SECONDS = 5.0


class NotRunning(Exception):
    """No node answers at the socket."""


class SocketError(Exception):
    """The socket cannot be opened, or the node's answer is none; one line."""


@dataclass(frozen=True, slots=True)
class Documents:
    """Where the documents come from; each returns JSON values. A raised exception is told."""

    status: Callable[[], Awaitable[object]]
    peers: Callable[[], Awaitable[object]]
    rollouts: Callable[[int], Awaitable[object]]
    """The newest own bundles, at most so many."""
    why: Callable[[str], Awaitable[object]]
    """What is known of and held against a peer, by its id or the beginning of it."""


class StatusServer:
    """Serves documents at a socket until `close`."""

    def __init__(self, path: Path, documents: Documents) -> None:
        self._path = path
        self._documents = documents
        self._server: asyncio.Server | None = None
        self._identity: tuple[int, int] | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @classmethod
    async def start(cls, path: Path, documents: Documents) -> Self:
        """Open the socket; one that a dead process left behind is swept away first.

        Raises SocketError, also when a living process answers there.
        """
        server = cls(path, documents)
        listening = _listen(path)
        server._identity = _identity(path)
        server._server = await asyncio.start_unix_server(
            server._connected, sock=listening, limit=MAX_REQUEST_BYTES
        )
        return server

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._connections)

    async def close(self) -> None:
        """Stop answering, and remove the socket if it is still ours."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        with contextlib.suppress(FileNotFoundError):
            if self._identity == _identity(self._path):
                self._path.unlink()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        crowded = len(self._connections) >= MAX_CONNECTIONS
        self._connections.add(task)
        try:
            if not crowded:
                await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # The client's affair: it hung up, is slow, or sent no line.
        finally:
            self._connections.discard(task)
            # Not close(): that would wait for a client which doesn't read.
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(REQUEST_SECONDS):
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                line = b"a longer line than any request"
        await _send(writer, await self._answer(line.decode("utf-8", "replace").strip()))

    async def _answer(self, request: str) -> bytes:
        try:
            async with asyncio.timeout(DOCUMENT_SECONDS):
                answer = json.dumps(await self._document(request)).encode()
        except TimeoutError:
            return _error(f"no answer within {DOCUMENT_SECONDS:.0f} s")
        except Exception as error:
            # Whatever a callable raises ends as text here: training must not hear of it.
            return _error(plain(f"{type(error).__name__}: {error}"))
        if len(answer) > MAX_ANSWER_BYTES:
            return _error("the answer is too large; ask for less")
        return answer

    def _document(self, request: str) -> Awaitable[object]:
        verb, _, argument = request.partition(" ")
        match verb:
            case "status" if not argument:
                return self._documents.status()
            case "peers" if not argument:
                return self._documents.peers()
            case "rollouts" if argument.isdecimal() and 0 < int(argument) <= MAX_ROLLOUTS:
                return self._documents.rollouts(int(argument))
            case "why" if argument:
                return self._documents.why(argument)
        raise SocketError(
            f"{plain(request, 64)!r} is no request; there are: status, peers, rollouts N (up to "
            f"{MAX_ROLLOUTS}), why PEER"
        )


async def _send(writer: asyncio.StreamWriter, answer: bytes) -> None:
    # Without this, drain() would return while much is still unsent.
    writer.transport.set_write_buffer_limits(high=0)
    async with asyncio.timeout(SEND_SECONDS):
        writer.write(answer + b"\n")
        await writer.drain()


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


def _listen(path: Path) -> socket.socket:
    """A listening socket at `path`, mode 0600 from the start. Raises SocketError."""
    _sweep(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(OSError):
            # Linux takes the socket's mode for the file, so that there is no moment without it.
            os.fchmod(listening.fileno(), 0o600)
        listening.bind(str(path))
        path.chmod(0o600)
        listening.listen(MAX_CONNECTIONS)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise SocketError(
            f"the status socket {path} cannot be opened: {error.strerror or error}; a shorter path "
            "may help (SWARMNODE_HOME)"
        ) from error
    return listening


def _sweep(path: Path) -> None:
    """Remove what a process that was killed left behind."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise SocketError(f"{path}: {error.strerror}") from error
    if not stat.S_ISSOCK(mode):
        raise SocketError(f"{path} is in the way: it is no socket; move it")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass  # Somebody holds it, who is too busy to answer.
    raise SocketError(f"another process answers at {path}")


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def ask(path: Path, request: str, timeout_seconds: float = 10.0) -> Any:
    """Ask the node whose socket is at `path`; blocks.

    Raises NotRunning when nobody listens there, SocketError when the answer is an error or none.
    """
    deadline = time.monotonic() + timeout_seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_seconds)
        try:
            connection.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NotRunning(str(path)) from error
        except OSError as error:
            raise SocketError(
                f"the node at {path} cannot be asked: {error.strerror or error}; do it as the user"
                " whose node it is, with its SWARMNODE_HOME"
            ) from error
        try:
            connection.sendall(request.encode() + b"\n")
            answer = json.loads(_received(connection, deadline))
        except (OSError, ValueError) as error:
            # Whatever it was (too late, cut off, too many at once), there is but one thing to do.
            raise SocketError(
                f"the node at {path} gives no answer, or is busy; try again, and if it stays so,"
                " `swarmnode logs` says what it does"
            ) from error
    if isinstance(answer, dict) and "error" in answer:
        raise SocketError(f"the node cannot answer: {answer['error']}")
    return answer


def _received(connection: socket.socket, deadline: float) -> bytes:
    received = bytearray()
    while len(received) <= MAX_ANSWER_BYTES:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("it takes too long")
        connection.settimeout(remaining)
        chunk = connection.recv(1 << 16)
        if not chunk:
            break
        received += chunk
    return bytes(received)
