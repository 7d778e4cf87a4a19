"""What changes on the page, as server-sent events: made once for all pages that are open.

Pulled, not pushed: while a page is open a moment is looked at every LOOK_SECONDS, and the parts
that changed since are made into JSON once. A page is owed the difference between what it was sent
and what is, whenever it can take it, so that nothing queues for it: one that reads slowly is sent
less often, and what happens in between costs nobody anything. Without a page nothing is made.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import structlog

from swarmnode.api.moment import Moment
from swarmnode.api.page import made
from swarmnode.api.pictures import CURVES
from swarmnode.observe.history import History, Point

LOOK_SECONDS = 2.0
FRESH_SECONDS = 1.0
"""A moment so young is taken as it is for a page that is opened."""
STILL_THERE_SECONDS = 15.0
"""After so long without a change a page is told that the node is there."""
RETRY_MILLISECONDS = 2000
MOST_PAGES = 8

log = structlog.get_logger()


class Live:
    """The parts of the page as they are, and who is told when they change."""

    def __init__(self, look: Callable[[], Awaitable[Moment]]) -> None:
        self._look = look
        self.pages = 0
        """Pages that are open."""
        self.number = 0
        """How often something has changed."""
        self._changed: dict[str, tuple[int, str]] = {}
        """By part: at which change it became what it is, and its tree as JSON."""
        self._moment: Moment | None = None
        self._history = History()
        self._bell = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._looked = 0.0
        self._one_at_a_time = asyncio.Lock()
        self._closed = False

    async def moment(self) -> Moment:
        """The node as it is now, or was FRESH_SECONDS ago. Raises what looking raises."""
        async with self._one_at_a_time:
            if self._moment is None or self._now() - self._looked > FRESH_SECONDS:
                return await self._take()
        return self._moment

    async def events(self) -> AsyncIterator[bytes]:
        """What a page is sent: all of it, and then what changes, until the page or the node goes.

        The caller sees to it that there are no more than MOST_PAGES.
        """
        self.pages += 1
        try:
            yield f"retry: {RETRY_MILLISECONDS}\n\n".encode()
            await self.moment()
            if self._looking is None:
                self._looking = asyncio.create_task(self._keep_looking(), name="dashboard")
            yield _event("history", columns(self._history.points))
            seen, added = 0, self._history.added
            while not self._closed:
                if self.number == seen:
                    yield _event("still", None)
                # More may change while this is sent.
                now, known = self.number, self._history.added
                new = self._history.since(added)
                for name, (number, text) in list(self._changed.items()):
                    if number > seen:
                        yield f'event: part\ndata: {{"{name}": {text}}}\n\n'.encode()
                if new:
                    yield _event("points", columns(new))
                seen, added = now, known
                await self._until_rung(seen)
        finally:
            self.pages -= 1
            if not self.pages and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def close(self) -> None:
        """Let every page go."""
        self._closed = True
        self._ring()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
            self._looking = None

    async def _until_rung(self, seen: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(STILL_THERE_SECONDS):
                while self.number == seen and not self._closed:
                    await self._bell.wait()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                async with self._one_at_a_time:
                    await self._take()
            except Exception as error:
                # A part that breaks must neither end the page nor reach the node.
                log.warning("the dashboard cannot look", why=f"{type(error).__name__}: {error}")

    async def _take(self) -> Moment:
        """Look, and note what has changed."""
        self._moment = moment = await self._look()
        self._looked = self._now()
        parts = made(moment)
        added = self._history.added
        self._history = moment.history
        number = self.number + 1
        changed = added != moment.history.added
        for name, tree in parts.items():
            text = json.dumps(tree, separators=(",", ":"))
            before = self._changed.get(name)
            if before is None or before[1] != text:
                self._changed[name] = (number, text)
                changed = True
        if changed:
            self.number = number
            self._ring()
        return moment

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _ring(self) -> None:
        self._bell.set()
        self._bell = asyncio.Event()


def columns(points: Sequence[Point]) -> dict[str, list[Any]]:
    """Points as what the page draws: round and time, then mean, low and high of each reward."""
    drawn: dict[str, list[Any]] = {
        "round": [point.round for point in points],
        "ended": [round(point.ended) for point in points],
    }
    for name in CURVES:
        spreads = [getattr(point, name) for point in points]
        for side in ("mean", "low", "high"):
            drawn[f"{name}/{side}"] = [
                None if spread is None else round(getattr(spread, side), 4) for spread in spreads
            ]
    return drawn


def _event(name: str, data: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
