"""How a long-running command ends: the first signal asks to stop, the second ends everything.

Knows nothing of what is stopped.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import structlog

INTERRUPTED = 130
"""Exit code after a second signal."""

log = structlog.get_logger()


class Stopping:
    """The first signal asks to stop, the second ends everything at once."""

    def __init__(self, grace_seconds: float, told: str) -> None:
        """`told` is what is logged at the first signal."""
        self._told = told
        self._grace_seconds = grace_seconds
        self._asked = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self._asked.is_set():
            # The children end with us: the kernel, or the end of their socket, tells them.
            os._exit(INTERRUPTED)
        log.info(self._told)
        self._asked.set()

    @property
    def asked(self) -> bool:
        """Whether it is time to stop."""
        return self._asked.is_set()

    async def sleep(self, seconds: float) -> None:
        """Wait, but no longer than until it is time to stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._asked.wait(), seconds)

    async def unless(self, work: Coroutine[Any, Any, None]) -> bool:
        """Do the work; once it is time to stop it has the grace, then it is cancelled.

        Whether it was done.
        """
        task = asyncio.ensure_future(work)
        asked = asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=self._grace_seconds)
        finally:
            asked.cancel()
            if not task.done():
                task.cancel()
        with suppress(asyncio.CancelledError):
            await task
            return True
        return False
