"""Clocks for tests of the network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from swarmnode.clock import VirtualClock, VirtualLoop
from tests.unit.network_made import NOW

Result = TypeVar("Result")


class FixedClock:
    """Shows `seconds` until a test sets it anew; waits and works without time."""

    def __init__(self, seconds: float = NOW) -> None:
        self.seconds = seconds

    def now(self) -> float:
        """Seconds since 1970."""
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        """Advance."""
        self.seconds += seconds
        await asyncio.sleep(0)

    async def work(self, seconds: float, computing: Coroutine[Any, Any, Result]) -> Result:
        """Compute."""
        return await computing


class SkewedClock:
    """Another clock, some seconds off."""

    def __init__(self, clock: VirtualClock, ahead_seconds: float) -> None:
        self._clock = clock
        self._ahead_seconds = ahead_seconds

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock.now() + self._ahead_seconds

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._clock.sleep(seconds)

    async def work(self, seconds: float, computing: Coroutine[Any, Any, Result]) -> Result:
        """Compute."""
        return await self._clock.work(seconds, computing)


def in_virtual_time(
    scenario: Callable[[VirtualClock], Coroutine[Any, Any, Result]],
) -> Result:
    """Run a scenario whose hours take no time; it begins at NOW."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return runner.run(scenario(VirtualClock(loop)))
