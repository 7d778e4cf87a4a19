"""uvicorn inside the node's own loop: it owns no signal and no log, and its clients are bounded.

What any program of this machine may do to the page it may not do to the node: connections beyond
MAX_CONNECTIONS are dropped at once, one that sends its request or reads its answer too slowly
after REQUEST_SECONDS or SEND_SECONDS, and what waits to be sent to it is bounded meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator

import h11
import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 32
MAX_HEADER_BYTES = 16 * 1024
REQUEST_SECONDS = 5.0
SEND_SECONDS = 15.0
KEEP_ALIVE_SECONDS = 15
CLOSE_SECONDS = 1.0
BACKLOG = 16
SEND_BUFFER_BYTES = 64 * 1024

log = structlog.get_logger()


class Connection(H11Protocol):  # type: ignore[misc]  # the library is not typed for us
    """A client, with limits to its time."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """As asyncio calls it."""
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
        else:
            self._within(REQUEST_SECONDS)

    def data_received(self, data: bytes) -> None:
        """As asyncio calls it."""
        super().data_received(data)
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            if self._timer is None:
                self._within(REQUEST_SECONDS)
        else:
            self._in_time()

    def pause_writing(self) -> None:
        """As asyncio calls it, where the client does not read."""
        super().pause_writing()
        self._within(SEND_SECONDS)

    def resume_writing(self) -> None:
        """As asyncio calls it."""
        super().resume_writing()
        self._in_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """As asyncio calls it."""
        self._in_time()
        super().connection_lost(exc)

    def _within(self, seconds: float) -> None:
        self._in_time()
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def _in_time(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Server(uvicorn.Server):  # type: ignore[misc]  # likewise
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the daemon's."""
        yield


class HttpServer:
    """Serves an application at a socket until `close`."""

    def __init__(self, application: ASGIApp, listening: socket.socket) -> None:
        config = uvicorn.Config(
            application,
            http=Connection,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            backlog=BACKLOG,
        )
        self._server = _Server(config)
        self._serving = asyncio.ensure_future(self._serve(listening))

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._server.server_state.connections)

    async def close(self) -> None:
        """Answer what is under way, for CLOSE_SECONDS at most, and close everything."""
        self._server.should_exit = True
        await asyncio.wait([self._serving], timeout=CLOSE_SECONDS)
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await self._serving

    async def _serve(self, listening: socket.socket) -> None:
        try:
            await self._server.serve(sockets=[listening])
        except Exception as error:
            # Nobody needs a page to train.
            log.error("the dashboard ended", why=f"{type(error).__name__}: {error}")
        finally:
            listening.close()


def listening_at(address: str, port: int) -> tuple[socket.socket, bool]:
    """A socket that listens there, or at any free port where that one is taken; and whether it is.

    Raises OSError where the address is none of this machine, or the port needs privileges.
    """
    try:
        return bound(address, port), False
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
    return bound(address, 0), True


def bound(address: str, port: int) -> socket.socket:
    """A socket that listens there and nowhere else. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections that a node had before its restart must not keep the port from it.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Of every connection: what the system holds for a client that does not read.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        listening.bind((address, port))
        listening.listen(BACKLOG)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening
