"""Time, passed in: the system's, or a virtual one that a whole swarm shares.

In virtual time nothing waits: when every task sleeps, the clock jumps to the next wake-up. Real
computing (a call to a child process) is given a declared virtual duration by `Clock.work`; its
result becomes visible exactly at the end of that duration, whether the machine was faster or
slower. So the order of everything depends on seeds alone, while children compute in parallel.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")

VIRTUAL_EPOCH_SECONDS = 1_800_000_000.0
"""What a virtual clock shows at its start: an arbitrary fixed moment, as seconds since 1970."""


class Clock(Protocol):
    """What a part may ask of time."""

    def now(self) -> float:
        """Seconds since 1970."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def work(self, seconds: float, computing: Coroutine[Any, Any, Result]) -> Result:
        """Await real computing that takes `seconds` of this clock, if the clock is virtual."""


class SystemClock:
    """The machine's own time; declared durations are ignored."""

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def work(self, seconds: float, computing: Coroutine[Any, Any, Result]) -> Result:
        """Await the computing, for as long as it takes."""
        return await computing


class VirtualClock:
    """The clock of a VirtualLoop; must be used inside it."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        """Seconds since 1970, counted from VIRTUAL_EPOCH_SECONDS."""
        return VIRTUAL_EPOCH_SECONDS + self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(seconds)

    async def work(self, seconds: float, computing: Coroutine[Any, Any, Result]) -> Result:
        """Start the computing now and return its result exactly `seconds` later.

        Virtual time stands still at that moment until the computing is done. When this call is
        cancelled, so is the computing.
        """
        task = asyncio.ensure_future(computing)
        try:
            await asyncio.sleep(seconds)
            with self._loop.standing_still():
                return await task
        finally:
            task.cancel()


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose time jumps to the next timer as soon as nothing else can run.

    Sockets and threads work as ever; an event that they bring changes no virtual time.
    """

    def __init__(self) -> None:
        self._virtual_seconds = 0.0
        self._holds = 0
        super().__init__(_JumpingSelector(self))

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._virtual_seconds

    def standing_still(self) -> _Hold:
        """A context in which time does not advance."""
        return _Hold(self)

    def jump(self, seconds: float) -> bool:
        """Advance, unless some work is overdue; tells whether it did."""
        if self._holds:
            return False
        self._virtual_seconds += seconds
        return True

    def _hold(self, change: int) -> None:
        self._holds += change


class _Hold:
    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def __enter__(self) -> None:
        self._loop._hold(+1)

    def __exit__(self, *_error: object) -> None:
        self._loop._hold(-1)


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would wait for its next timer, jump there instead."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if events := super().select(0):
            return events
        if self._loop.jump(timeout):
            return []
        return super().select(None)
