"""trio in the event loop of asyncio: py-libp2p runs under the one, we under the other.

Both take turns in one thread, so that nothing of ours needs a lock; what hangs one hangs both, and
the daemon sees it and starts the process anew. An end of trio, whatever it is, ends only what waits
for it. Knows no network. Source: network.md section 2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from swarmnode.network.light_libp2p import trio

Result = TypeVar("Result")


class GuestGone(ConnectionError):
    """trio has ended, or ends."""


class Guest:
    """A run of trio; built by `start`, of no use once `ended` is set."""

    def __init__(self) -> None:
        self.ended: Final = asyncio.Event()
        self.why = ""
        """What ended it, in one line; empty where that was `close`."""
        self._loop = asyncio.get_running_loop()
        self._begun: asyncio.Future[None] = self._loop.create_future()
        self._waiting: set[asyncio.Future[Callable[[], Any]]] = set()
        self._token: Any = None
        self._nursery: Any = None

    @classmethod
    async def start(cls) -> Guest:
        """Begin; must be closed by the same loop."""
        guest = cls()
        trio.lowlevel.start_guest_run(
            guest._main,
            run_sync_soon_threadsafe=guest._loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=guest._loop.call_soon,
            done_callback=guest._done,
            host_uses_signal_set_wakeup_fd=True,
            restrict_keyboard_interrupt_to_checkpoints=True,
        )
        await guest._begun
        return guest

    async def call(self, function: Callable[..., Awaitable[Result]], *arguments: Any) -> Result:
        """Run a function of trio's, from asyncio; cancelled when this is, and waited for.

        Raises what it raises, and GuestGone where trio ends first.
        """
        if self.ended.is_set():
            raise GuestGone(self.why)
        outcome: asyncio.Future[Callable[[], Result]] = self._loop.create_future()
        scope = trio.CancelScope()

        async def run() -> None:
            try:
                with scope:
                    result = await function(*arguments)
                    _settle(outcome, lambda: result)
            except Exception as error:
                _settle(outcome, partial(_raise, error))
            finally:
                _settle(outcome, partial(_raise, GuestGone("trio was ended")))

        self._waiting.add(outcome)
        self._token.run_sync_soon(self._nursery.start_soon, run)
        try:
            await asyncio.shield(outcome)
        except asyncio.CancelledError:
            self._soon(scope.cancel)
            await asyncio.wait([outcome])
            raise
        finally:
            self._waiting.discard(outcome)
        return outcome.result()()

    async def host(self, work: Awaitable[Result]) -> Result:
        """Wait for something of asyncio's, from trio; cancelled when this is."""
        done = trio.Event()
        task = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._soon(done.set))
        try:
            await done.wait()
        except BaseException:
            task.cancel()
            raise
        return task.result()

    async def close(self) -> None:
        """End all that runs under trio. May be called again."""
        if not self.ended.is_set():
            self._soon(self._nursery.cancel_scope.cancel)
        await self.ended.wait()

    def _soon(self, function: Callable[[], object]) -> None:
        if not self.ended.is_set():
            self._token.run_sync_soon(function)

    async def _main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery, self._token = nursery, trio.lowlevel.current_trio_token()
            self._begun.set_result(None)
            await trio.sleep_forever()

    def _done(self, outcome: Any) -> None:
        error = getattr(outcome, "error", None)
        if error is not None:
            self.why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        self.ended.set()
        for waiting in self._waiting:
            _settle(waiting, partial(_raise, GuestGone(self.why)))
        if not self._begun.done():
            self._begun.set_exception(GuestGone(self.why))


def _settle(outcome: asyncio.Future[Callable[[], Result]], value: Callable[[], Result]) -> None:
    if not outcome.done():
        outcome.set_result(value)


def _raise(error: Exception) -> NoReturn:
    raise error
