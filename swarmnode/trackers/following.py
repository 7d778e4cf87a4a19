"""Gives every round to whoever follows: bounded, apart from the rounds, and patient with failures.

Invariants: `heard` never waits and never raises; a follower that fails is asked again with what it
has not taken, after growing pauses, and its problem is told until it succeeds; what is more than
MOST_WAITING is dropped, the oldest first, and counted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import structlog

from swarmnode.observe.words import plain
from swarmnode.process import Child, ChildError
from swarmnode.trackers.lines import RoundLines
from swarmnode.trackers.run import Run
from swarmnode.trackers.values import tracked_values

MOST_WAITING = 256
AT_ONCE = 64
BEGIN_SECONDS = 120.0
"""A library may be slow to import, or ask its server."""
WRITE_SECONDS = 60.0
CLOSE_SECONDS = 10.0
"""What a follower gets at the end for what it has not taken."""
MOST_SECONDS_BETWEEN_TRIES = 300.0

log = structlog.get_logger()


class Ended(NamedTuple):
    """A round, and when it ended in seconds since 1970."""

    report: Mapping[str, Any]
    ended: float


class Follower(Protocol):
    """Who takes rounds."""

    name: str

    @property
    def process(self) -> tuple[str, int | None, int] | None:
        """Its name, its id while it lives, and restarts; None of what has no process."""

    async def write(self, rounds: Sequence[Ended]) -> None:
        """Keep them. Whatever it raises is its problem; it will be asked again."""

    async def close(self) -> None:
        """No more rounds come."""


class LinesFollower:
    """rounds.jsonl, written by a thread."""

    name = "rounds.jsonl"
    process = None

    def __init__(self, lines: RoundLines) -> None:
        self._lines = lines

    async def write(self, rounds: Sequence[Ended]) -> None:
        """Raises OSError."""
        await asyncio.to_thread(self._lines.write, [each.report for each in rounds])

    async def close(self) -> None:
        """Nothing is open."""


class TrackerFollower:
    """A tracker in its process, which is started when there is something to write."""

    def __init__(self, name: str, child: Child, run: Run) -> None:
        self.name = name
        self._child = child
        self._run = run
        self._begun = False

    @property
    def process(self) -> tuple[str, int | None, int]:
        """As ProcessStatus takes it."""
        return self.name, self._child.process_id, max(0, self._child.starts - 1)

    async def write(self, rounds: Sequence[Ended]) -> None:
        """Raises ChildError; whatever it was, the next time begins with another process."""
        rows = [[int(report["round"]), ended, tracked_values(report)] for report, ended in rounds]
        try:
            if not self._begun or not self._child.alive:
                self._begun = False
                self._child.start()
                run = self._run.to_values()
                where = await self._child.call("begin", run, BEGIN_SECONDS)
                self._begun = True
                log.info("tracker", name=self.name, look_at_it_by=where)
            await self._child.call("write", rows, WRITE_SECONDS)
        except ChildError:
            self._begun = False
            raise

    async def close(self) -> None:
        """End the run in order, in the time that there is."""
        try:
            if self._begun and self._child.alive:
                with suppress(ChildError):
                    await self._child.call("close", None, CLOSE_SECONDS)
        finally:
            await self._child.close()


class Followed:
    """What waits for one follower."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.problem = ""
        """Why it takes nothing, in one line; "" while it does."""
        self.dropped = 0
        self._waiting: deque[Ended] = deque()
        self._failures = 0
        self._more = asyncio.Event()
        self._taken = asyncio.Event()
        self._taken.set()

    def put(self, one: Ended) -> None:
        """Have it taken, some time."""
        self._waiting.append(one)
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._taken.clear()
        self._more.set()

    async def feed(self) -> None:
        """Until cancelled."""
        while True:
            await self._more.wait()
            batch = list(self._waiting)[:AT_ONCE]
            try:
                await self.follower.write(batch)
            except Exception as error:
                # A library of strangers: whatever it does, rounds go on.
                await self._failed(error)
                continue
            self._succeeded(batch)

    def _succeeded(self, batch: Sequence[Ended]) -> None:
        if self.problem:
            log.info("tracker works again", name=self.follower.name)
        self.problem, self._failures = "", 0
        taken = {id(each) for each in batch}
        while self._waiting and id(self._waiting[0]) in taken:
            self._waiting.popleft()
        if not self._waiting:
            self._more.clear()
            self._taken.set()

    async def _failed(self, error: Exception) -> None:
        problem = plain(str(error) or type(error).__name__)
        if problem != self.problem:
            log.warning("tracker failed", name=self.follower.name, why=problem)
        self.problem = problem
        self._failures += 1
        await asyncio.sleep(min(2.0**self._failures, MOST_SECONDS_BETWEEN_TRIES))

    async def end(self, feeding: asyncio.Task[None]) -> None:
        """What is left is taken, where it can be."""
        if not self.problem:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._taken.wait(), CLOSE_SECONDS)
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        with suppress(Exception):
            await self.follower.close()


class Following:
    """All followers of a node; the owner must `close` it."""

    def __init__(self, followers: Sequence[Follower]) -> None:
        """Needs a running loop."""
        self._followed = [Followed(each) for each in followers]
        self._tasks = [
            asyncio.create_task(each.feed(), name=f"tracker {each.follower.name}")
            for each in self._followed
        ]

    def heard(self, report: Mapping[str, Any], ended: float) -> None:
        """A round has ended; its report as plain values, which nobody changes any more."""
        for each in self._followed:
            each.put(Ended(report, ended))

    @property
    def processes(self) -> list[tuple[str, int | None, int]]:
        """Of the trackers: name, process id while it lives, restarts."""
        return [each.follower.process for each in self._followed if each.follower.process]

    @property
    def problems(self) -> Mapping[str, str]:
        """Why a follower takes nothing, by its name; empty while all do."""
        return {each.follower.name: each.problem for each in self._followed if each.problem}

    async def close(self) -> None:
        """Give them what is left, all at once, CLOSE_SECONDS for each step."""
        pairs = zip(self._followed, self._tasks, strict=True)
        await asyncio.gather(*(each.end(task) for each, task in pairs))
