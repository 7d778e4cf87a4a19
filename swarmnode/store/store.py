"""The store: what a node remembers over its death, and reads for its status.

Knows tables and rows, and no round, peer or transport. Invariants: `record_` and `keep_` methods
take what they are given and return at once, whatever the disk does; what is lost is counted in
`dropped`, and `problem` says why. Reserved numbers are on disk before they are returned.
Only one process may have a home's store open: hold the home's lock.
"""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from swarmnode.store import rollout_rows, tables
from swarmnode.store.database import Database, StoreError, open_database, set_aside
from swarmnode.store.records import (
    Event,
    NewRollout,
    PeerRecord,
    PublishedBundle,
    StoredRound,
    Treatment,
)
from swarmnode.store.reserved import ReservedNumbers
from swarmnode.store.writer import Job, Writer
from swarmproto import ReplayWindow

CLOSE_SECONDS = 10.0

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is kept: the newest of each."""

    rounds: int = 100_000
    bundle_bytes: int = 64 * 2**20
    """Bytes of own published bundles."""
    rollout_bytes: int = 64 * 2**20
    """Bytes of rollouts, own and peers'; 0: none are kept."""
    peers: int = 10_000
    replay_windows: int = 4096
    events: int = 10_000
    queued: int = 1024
    """Rows that may wait to be written."""
    queued_bytes: int = 32 * 2**20


class Store:
    """A node's store; `open` makes it, `close` writes what waits."""

    def __init__(self, writer: Writer, numbers: ReservedNumbers, limits: Limits) -> None:
        """For `open` alone."""
        self._writer = writer
        self._numbers = numbers
        self._limits = limits
        self._reserving = ThreadPoolExecutor(1, thread_name_prefix="reserving")
        self._reserving_problem = ""

    @classmethod
    def open(
        cls,
        database: Path,
        reserved: Path,
        *,
        now: Callable[[], float],
        limits: Limits | None = None,
        rng: random.Random | None = None,
    ) -> Store:
        """Open or make the two files; damaged ones are set aside, which an event tells.

        `rng` must not follow from a seed where anything is published, or lost numbers come again;
        the operating system's is the default. Raises StoreError.
        """
        limits = limits or Limits()
        try:
            numbers = ReservedNumbers(reserved, rng or random.SystemRandom(), now())
        except OSError as error:
            raise StoreError(f"{reserved} cannot be used: {error.strerror}") from error

        def event(aside: Path) -> Job:
            return tables.insert_event(_set_aside_event(aside, now()), limits.events)

        def anew() -> Database:
            aside = set_aside(database, now())
            return Database(open_database(database, now).connection, aside)

        writer = Writer(
            open_database(database, now),
            anew,
            event,
            most_puts=limits.queued,
            most_bytes=limits.queued_bytes,
        )
        if numbers.set_aside is not None:
            writer.put(event(numbers.set_aside), 0)
        return cls(writer, numbers, limits)

    @property
    def problem(self) -> str:
        """Why something cannot be kept, in one line; "" while all is well."""
        return self._reserving_problem or self._writer.problem

    @property
    def dropped(self) -> int:
        """Rows that were recorded and not kept, since the start."""
        return self._writer.dropped

    def record_round(self, number: int, ended: float, report: Mapping[str, Any]) -> None:
        """Keep a round's report, which must be plain JSON values."""
        text = json.dumps(report)
        row = (number, ended, text)
        self._writer.put(tables.insert_round(row, self._limits.rounds), len(text))

    def record_bundle(self, bundle: PublishedBundle) -> None:
        """Keep the exact bytes of a bundle that was published."""
        self._writer.put(tables.insert_bundle(bundle, self._limits.bundle_bytes), bundle.size)

    def record_rollouts(self, rollouts: Sequence[NewRollout]) -> None:
        """Keep scored groups with their questions."""
        if rollouts and self._limits.rollout_bytes:
            rows = [(each, json.dumps(dict(each.content))) for each in rollouts]
            size = sum(rollout_rows.size_of_row(*row) for row in rows)
            job = rollout_rows.insert_rollouts(rows, self._limits.rollout_bytes)
            self._writer.put(job, size)

    def record_treated(self, treatments: Sequence[Treatment]) -> None:
        """Keep what a step made of rollouts, as far as these are kept."""
        if treatments and self._limits.rollout_bytes:
            self._writer.put(rollout_rows.update_treated(treatments), 256 * len(treatments))

    def record_peer(self, record: PeerRecord) -> None:
        """Keep what is known of a peer, in place of what was."""
        self._writer.put(tables.upsert_peer(record, self._limits.peers), 512)

    def record_event(self, event: Event) -> None:
        """Keep an event."""
        self._writer.put(tables.insert_event(event, self._limits.events), len(event.text))

    def keep_window(self, public_key: bytes, window: ReplayWindow) -> None:
        """Keep a key's replay window, in place of the one that was."""
        data = window.to_bytes()
        job = tables.upsert_window(public_key, data, self._limits.replay_windows)
        self._writer.put(job, len(data))

    def keep_saved_peers(self, swarm_id: bytes, addresses: Sequence[str]) -> None:
        """Keep the addresses of good peers of a swarm, best first, in place of those that were.

        No other swarm's strangers hear of them: where to begin is told to whoever asks.
        """
        job = tables.replace_saved_peers(swarm_id, tuple(addresses))
        self._writer.put(job, sum(map(len, addresses)))

    async def rounds(self, count: int) -> Sequence[StoredRound]:
        """The newest, newest first; unreadable rows are left out, here and below."""
        return await self._read(lambda connection: tables.select_rounds(connection, count), ())

    async def history(self, recent: int, older: int, every: int) -> Sequence[StoredRound]:
        """The newest `recent`, and about `older` of those before, oldest first; among these the
        rounds whose number is a multiple of `every`, as far as the distance allows."""
        return await self._read(
            lambda connection: tables.select_history(connection, recent, older, every), ()
        )

    async def bundles(self, count: int) -> Sequence[PublishedBundle]:
        """The newest, newest first."""
        return await self._read(lambda connection: tables.select_bundles(connection, count), ())

    async def peers(self, count: int) -> Sequence[PeerRecord]:
        """Those seen last, last first."""
        return await self._read(lambda connection: tables.select_peers(connection, count), ())

    async def events(self, count: int) -> Sequence[Event]:
        """The newest, newest first."""
        return await self._read(lambda connection: tables.select_events(connection, count), ())

    async def windows(self) -> Mapping[bytes, ReplayWindow]:
        """Replay windows by public key, the one used longest ago first."""
        return await self._read(tables.select_windows, {})

    async def saved_peers(self, swarm_id: bytes) -> Sequence[str]:
        """Addresses of good peers of a swarm, best first."""
        return await self._read(
            lambda connection: tables.select_saved_peers(connection, swarm_id), ()
        )

    async def reserve_sequence(self, public_key: bytes, at_least: int, count: int) -> int:
        """The first of `count` sequence numbers of a key that nobody is given again.

        Where it cannot be saved, the numbers start at `at_least`: they follow the clock, so that
        they are new after a restart too.
        """
        return await self._reserve(
            lambda: self._numbers.sequence(public_key, at_least, count),
            lambda: self._numbers.unsaved_sequence(public_key, at_least),
        )

    async def reserve_indices(
        self, public_key: bytes, swarm_id: bytes, task: str, level: str, count: int
    ) -> int:
        """The first of `count` indices of a question stream that nobody is given again.

        Where it cannot be saved, they come from a part of the stream that saved ones don't reach.
        """
        stream = (public_key, swarm_id, task, level)
        return await self._reserve(
            lambda: self._numbers.indices(stream, count),
            lambda: self._numbers.unsaved_indices(stream, count),
        )

    def close(self) -> bool:
        """Write what waits; whether that was done within CLOSE_SECONDS."""
        self._reserving.shutdown(wait=True)
        return self._writer.close(CLOSE_SECONDS)

    async def _reserve(self, saved: Callable[[], int], unsaved: Callable[[], int]) -> int:
        def reserve() -> int:
            try:
                first = saved()
            except OSError as error:
                self._reserving_problem = f"numbers cannot be reserved: {error.strerror}"
                return unsaved()
            self._reserving_problem = ""
            return first

        return await asyncio.get_running_loop().run_in_executor(self._reserving, reserve)

    async def _read(self, job: Callable[[sqlite3.Connection], Result], otherwise: Result) -> Result:
        try:
            return await asyncio.wrap_future(self._writer.request(job))
        except sqlite3.Error:
            return otherwise


def _set_aside_event(aside: Path, at: float) -> Event:
    return Event(at, "store_set_aside", f"damaged; kept as {aside}, and a new one was begun")
