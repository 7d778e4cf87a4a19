"""Work of a peer that goes on beside whatever else it does, and ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

BOOTSTRAP_SECONDS: Final = 5.0
"""That a start waits for bootstrap peers."""


class Beside:
    """Tasks, until `end`."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Begin some work; what it raises is its task's."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def dial(
        self, connect: Callable[[str], Coroutine[Any, Any, Any]], addresses: Sequence[str]
    ) -> None:
        """Dial bootstrap peers; slow ones go on beside us."""
        if dialled := [self.begin(connect(address)) for address in addresses]:
            await asyncio.wait(dialled, timeout=BOOTSTRAP_SECONDS)

    async def end(self) -> None:
        """End what goes on. May be called again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
