"""Virtual time: it jumps, it waits for overdue work, and its order depends on durations alone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from swarmnode.clock import SystemClock, VirtualClock, VirtualLoop


def in_virtual_time(scenario: Callable[[VirtualClock], Coroutine[Any, Any, object]]) -> object:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return runner.run(scenario(VirtualClock(loop)))


def test_an_hour_of_sleep_takes_no_time() -> None:
    async def scenario(clock: VirtualClock) -> float:
        before = clock.now()
        await clock.sleep(3600)
        return clock.now() - before

    started = time.monotonic()
    assert in_virtual_time(scenario) == pytest.approx(3600)
    assert time.monotonic() - started < 1


def test_results_appear_in_the_order_of_declared_durations_not_of_real_ones() -> None:
    async def scenario(clock: VirtualClock) -> list[tuple[str, float]]:
        seen: list[tuple[str, float]] = []
        start = clock.now()
        release = threading.Event()

        async def compute(name: str, seconds: float) -> None:
            # The first waits in a thread until the second has computed: the reverse real order.
            await clock.work(
                seconds, asyncio.to_thread(release.wait if name == "first" else release.set)
            )
            seen.append((name, round(clock.now() - start, 6)))

        await asyncio.gather(compute("first", 1.0), compute("second", 2.0))
        return seen

    assert in_virtual_time(scenario) == [("first", 1.0), ("second", 2.0)]


def test_time_stands_still_while_overdue_work_is_awaited() -> None:
    async def scenario(clock: VirtualClock) -> float:
        start = clock.now()
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await clock.sleep(0.1)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        await clock.work(1.05, asyncio.to_thread(time.sleep, 0.2))
        ticking.cancel()
        assert ticks == 10
        return round(clock.now() - start, 6)

    assert in_virtual_time(scenario) == 1.05


def test_an_error_in_the_computing_reaches_the_caller() -> None:
    async def scenario(clock: VirtualClock) -> None:
        async def fail() -> None:
            raise ValueError("broken")

        await clock.work(1.0, fail())

    with pytest.raises(ValueError, match="broken"):
        in_virtual_time(scenario)


def test_the_system_clock_ignores_declared_durations() -> None:
    async def scenario() -> int:
        async def compute() -> int:
            return 7

        return await SystemClock().work(3600, compute())

    assert asyncio.run(scenario()) == 7
