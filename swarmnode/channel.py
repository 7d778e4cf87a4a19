"""Many concurrent calls, both ways, over one inherited unix socket.

A frame is a four-byte big-endian length and a msgpack list: `[id, "call", method, payload]`,
answered by `[id, "ok", value]` or `[id, "failed", text]`. `[id, "cancel"]` says that nobody waits
any more; that call is answered all the same. Numbers are the caller's own and never used twice.

Each side keeps at most MAX_CALLS unanswered calls open, and one that breaks this or the format is
hung up on. What is written waits until the other side reads: no more than one frame beyond the
transport's buffer is ever held for it. Nothing blocks reading, so two busy sides can't lock up.

process.py serves one request at a time to a child that blocks; this is for two event loops. The
module knows nothing of what is called, and restarts nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgpack

Handlers = Mapping[str, Callable[[Any], Awaitable[Any]]]

MAX_FRAME_BYTES = 64 * 1024 * 1024
MAX_CALLS = 256
"""Calls of one side that may be unanswered; more wait their turn, within their time limit."""
MAX_ERROR_CHARACTERS = 2000
CLOSE_SECONDS = 1.0
"""What `close` gives the other side to read the last answers, and handlers to end."""

_LENGTH = struct.Struct(">I")


class ChannelError(Exception):
    """What a call can end in, apart from its answer."""


class ChannelClosed(ChannelError):
    """The channel ended; the call may or may not have taken effect."""


class ChannelTimedOut(ChannelError):
    """No answer came in time; the other side was told that nobody waits."""


class CallFailed(ChannelError):
    """The other side's handler raised, and the message is its; or the payload is too large."""


class _Broken(Exception):
    """The other side breaks the format."""


class Channel:
    """One end of the socket. `run` must be running for anything to come in.

    Cancelling a `call` cancels its handler on the other side.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handlers: Handlers
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._handlers = handlers
        self._numbers = itertools.count()
        self._slots = asyncio.Semaphore(MAX_CALLS)
        self._turn = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._answering: set[int] = set()
        self.ended = ""
        """Why the channel ended, in one line; empty while it is open."""

    @classmethod
    async def over(cls, sock: socket.socket, handlers: Handlers) -> Channel:
        """A channel over a connected unix stream socket, which it owns from now on."""
        sock.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=sock), handlers)

    async def run(self) -> None:
        """Serve and receive until the other side hangs up or breaks the format.

        Every waiting call raises ChannelClosed then, and handlers still at work are cancelled.
        """
        why = "the channel was closed on this side"
        try:
            while True:
                self._receive(await self._frame())
        except (asyncio.IncompleteReadError, OSError):
            why = "the other side hung up"
        except _Broken as error:
            why = str(error)
        finally:
            self._end(why)
            self._writer.transport.abort()

    async def call(self, method: str, payload: object, timeout_seconds: float) -> Any:
        """Ask the other side and wait for its answer; any number of calls may wait at once.

        Raises ChannelClosed, ChannelTimedOut or CallFailed.
        """
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            frame = _packed([number, "call", method, payload])
        except ValueError as error:
            raise CallFailed(f"{method}: {error}") from None
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._slots.acquire()
                self._waiting[number] = answer
                try:
                    await self._send(frame)
                except BaseException:
                    if number in self._waiting:
                        self._settled(number)
                    raise
                return await answer
        except TimeoutError:
            raise ChannelTimedOut(f"{method} took over {timeout_seconds} s") from None
        except CallFailed as error:
            raise CallFailed(f"{method}: {error}") from None
        finally:
            if number in self._waiting and not self.ended:
                # Its slot stays taken until the answer comes: what still runs over there counts.
                self._writer.write(_packed([number, "cancel"]))

    async def close(self) -> None:
        """Hang up, letting the answers that were written leave. May be called twice."""
        self._end("the channel was closed on this side")
        left = set(self._serving.values()) - {asyncio.current_task()}
        if left:
            await asyncio.wait(left, timeout=CLOSE_SECONDS)
        hanging_up = asyncio.ensure_future(self._writer.wait_closed())
        await asyncio.wait([hanging_up], timeout=CLOSE_SECONDS)
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await hanging_up

    def _end(self, why: str) -> None:
        if self.ended:
            return
        self.ended = why
        for number, answer in list(self._waiting.items()):
            _fail(answer, ChannelClosed(why))
            self._settled(number)
        for number, task in self._serving.items():
            if task is not asyncio.current_task():
                self._cancel_soon(number)
        self._writer.close()

    def _settled(self, number: int) -> asyncio.Future[Any]:
        answer = self._waiting.pop(number, None)
        if answer is None:
            raise _Broken(f"an answer to call {number}, which does not wait")
        self._slots.release()
        return answer

    async def _frame(self) -> Any:
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        if length > MAX_FRAME_BYTES:
            raise _Broken(f"a frame of {length} bytes exceeds {MAX_FRAME_BYTES}")
        body = await self._reader.readexactly(length)
        try:
            return msgpack.unpackb(body, strict_map_key=False)
        except (TypeError, ValueError, OverflowError) as error:
            raise _Broken(f"a frame that is no msgpack: {error}") from None

    def _receive(self, frame: Any) -> None:
        match frame:
            case [int(number), "call", str(method), payload]:
                self._serve(number, method, payload)
            case [int(number), "ok", value]:
                answer = self._settled(number)
                if not answer.done():
                    answer.set_result(value)
            case [int(number), "failed", str(text)]:
                _fail(self._settled(number), CallFailed(text))
            case [int(number), "cancel"]:
                self._cancel_soon(number)
            case _:
                raise _Broken("a frame of an unknown form")

    def _cancel_soon(self, number: int) -> None:
        # Soon, not now: a task that is cancelled before its first step would never answer.
        asyncio.get_running_loop().call_soon(self._cancel, number)

    def _cancel(self, number: int) -> None:
        if number in self._serving and number not in self._answering:
            self._serving[number].cancel()

    def _serve(self, number: int, method: str, payload: Any) -> None:
        if number in self._serving or len(self._serving) >= MAX_CALLS:
            raise _Broken("more calls at once than agreed, or one number twice")
        self._serving[number] = asyncio.get_running_loop().create_task(
            self._answer(number, method, payload), name=f"serving-{method[:40]}"
        )

    async def _answer(self, number: int, method: str, payload: Any) -> None:
        try:
            frame = await self._answered(number, method, payload)
            self._answering.add(number)
            with contextlib.suppress(ChannelClosed):
                await self._send(frame)
        finally:
            # At once after the write: the other side may call again as soon as it has the answer.
            self._answering.discard(number)
            del self._serving[number]

    async def _answered(self, number: int, method: str, payload: Any) -> bytes:
        handler = self._handlers.get(method)
        if handler is None:
            return _packed([number, "failed", f"there is no method {method[:40]!r}"])
        try:
            return _packed([number, "ok", await handler(payload)])
        except asyncio.CancelledError:
            if self.ended:
                raise
            return _packed([number, "failed", "cancelled"])
        except Exception as error:
            return _packed([number, "failed", _text_of(error)])

    async def _send(self, frame: bytes) -> None:
        """Write as soon as there is room. Nothing is awaited after the write."""
        async with self._turn:
            try:
                await self._writer.drain()
            except OSError:
                raise ChannelClosed(self.ended or "the other side hung up") from None
            if self.ended:
                raise ChannelClosed(self.ended)
            self._writer.write(frame)


def _packed(value: object) -> bytes:
    body: bytes = msgpack.packb(value)
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {len(body)} bytes exceeds {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def _fail(answer: asyncio.Future[Any], error: ChannelError) -> None:
    if not answer.done():
        answer.set_exception(error)
        # Looked at, so that a caller that was cancelled meanwhile leaves no complaint in the log.
        answer.exception()


def _text_of(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"[:MAX_ERROR_CHARACTERS]
    return text.encode("utf-8", "replace").decode()
