"""A process that is started again whenever it is lost, for ever, and a channel to each life of it.

It is lost when it exits, hangs up, or fails the session that its owner holds with it; then its
whole group is killed. Between lives there is a pause that doubles. Knows no network.

`close` leaves no process behind; nor does the end of this one, whatever it is, since the other side
asks the kernel to die with its parent and sees its socket close.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from swarmnode.channel import Channel, ChannelClosed, ChannelError
from swarmnode.process import spawn

Talk = Callable[[Channel], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what may take, in seconds."""

    start: float = 140.0
    """Beginning: the process loads slowly and its bootstrap peers are far."""
    between_looks: float = 1.0
    """From one question after its health to the next."""
    silence: float = 8.0
    """An answer about its health: above it, the process hangs. With the looks, the pause and a
    start it leaves room for dialling in the 20 s in which a node is back in its swarm."""
    quiet: float = 4.0
    """Without an answer about its health, after which it is told that none comes."""
    first_pause: float = 1.0
    longest_pause: float = 60.0
    steady: float = 10.0
    """A life of this length makes the next pause a first one again."""
    between_saves: float = 60.0
    """Of its good peers, in what outlives us."""
    stop: float = 5.0
    """Leaving in good order, before it is killed."""


class RespawnedProcess:
    """`python -m MODULE DESCRIPTOR [ARGUMENT ...]`, with an empty environment.

    `session` is held with each life and ends only by raising: whatever it raises ends that life.
    `farewell` lets a living process leave in good order, when this is closed. `ended` is told, in
    one line, why a life ended.
    """

    def __init__(
        self,
        module: str,
        *,
        session: Talk,
        farewell: Talk,
        ended: Callable[[str], None],
        patience: Patience,
        arguments: Sequence[str] = (),
    ) -> None:
        self._module = module
        self._arguments = arguments
        self._session = session
        self._farewell = farewell
        self._ended = ended
        self._patience = patience
        self._closing = False
        self._running: asyncio.Task[None] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self.restarts = 0

    @property
    def process_id(self) -> int | None:
        """The operating system's id of the present life."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Begin the first life. Must be called in the loop's thread, which has to last."""
        self._running = asyncio.get_running_loop().create_task(self._run(), name=self._module)

    async def close(self) -> None:
        """End it, after the farewell; one that hangs has `patience.stop` to answer that."""
        self._closing = True
        if self._running is None:
            return
        if self._channel is not None:
            with contextlib.suppress(ChannelError):
                await self._farewell(self._channel)
        self._running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._running

    async def _run(self) -> None:
        loop, patience = asyncio.get_running_loop(), self._patience
        pause = patience.first_pause
        while True:
            born = loop.time()
            why = await self._life()
            if self._closing:
                return
            self._ended(why)
            if loop.time() - born >= patience.steady:
                pause = patience.first_pause
            await asyncio.sleep(pause)
            pause = min(2.0 * pause, patience.longest_pause)
            self.restarts += 1

    async def _life(self) -> str:
        """One life, from start to end; returns why it ended."""
        try:
            process, connection = spawn([sys.executable, "-m", self._module], self._arguments, {})
        except OSError as error:
            return f"the network process could not be started: {error}"
        self._process = process
        try:
            lost = await self._spoken(await Channel.over(connection, {}), process)
        finally:
            _kill(process)
            self._process = None
            # In a thread, since what the kernel has not let go of yet can't be waited for here; and
            # whole, since a wait that is cancelled before its thread begins reaps nothing.
            await asyncio.shield(asyncio.to_thread(process.wait))
        if lost is None or isinstance(lost, ChannelClosed):
            return f"the network process {_ending(process.returncode)}"
        return " ".join(str(lost).split()) or type(lost).__name__

    async def _spoken(
        self, channel: Channel, process: subprocess.Popen[bytes]
    ) -> BaseException | None:
        """Hold the session while the process lives; returns what it raised, if it did first."""
        self._channel = channel
        serving = asyncio.ensure_future(channel.run())
        session = asyncio.ensure_future(self._session(channel))
        try:
            await asyncio.wait({serving, session}, return_when=asyncio.FIRST_COMPLETED)
            return session.exception() if session.done() else None
        finally:
            self._channel = None
            # Before anything is waited for, so that one that hangs delays nothing.
            _kill(process)
            session.cancel()
            await channel.close()
            await asyncio.wait({serving, session})
            if not session.cancelled():
                session.exception()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill its group, so that no child of its own is left. Harmless on a dead one, until reaped."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    return f"exited with code {code}" if code >= 0 else f"was ended by signal {-code}"
