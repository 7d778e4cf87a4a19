"""The one thread that speaks to the database: what is put is written soon, in order, or dropped.

Knows no table. Invariants: `put` never waits and never raises; a request sees everything that was
put before it. What cannot be written is dropped and counted, and `problem` says why until writing
succeeds again. A database that turns out damaged is set aside and begun anew.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from swarmnode.store.database import Database, StoreError, is_damage

Result = TypeVar("Result")
Job = Callable[[sqlite3.Connection], Any]


@dataclass(frozen=True, slots=True)
class _Put:
    job: Job
    size: int


@dataclass(frozen=True, slots=True)
class _Request:
    job: Job
    answer: Future[Any]


class Writer:
    """Owns the connection; `reopen` sets a damaged database aside and gives a new one."""

    def __init__(
        self,
        database: Database,
        reopen: Callable[[], Database],
        on_set_aside: Callable[[Path], Job],
        *,
        most_puts: int,
        most_bytes: int,
    ) -> None:
        """`on_set_aside` makes the first job of a database that replaces a damaged one."""
        self._connection = database.connection
        self._reopen = reopen
        self._on_set_aside = on_set_aside
        self._most_puts = most_puts
        self._most_bytes = most_bytes
        self._queue: deque[_Put | _Request] = deque()
        self._puts = 0
        self._bytes = 0
        self._closing = False
        self._changed = threading.Condition()
        self.problem = ""
        """Why writing fails; "" while it works."""
        self.dropped = 0
        """What was put and not written, since the start."""
        if database.set_aside is not None:
            self.put(on_set_aside(database.set_aside), 0)
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        self._thread.start()

    def put(self, job: Job, size: int) -> None:
        """Have `job` done in a transaction, unless too many, or too many bytes, are waiting."""
        with self._changed:
            full = self._puts >= self._most_puts or self._bytes + size > self._most_bytes
            if full or self._closing:
                self.dropped += 1
                return
            self._queue.append(_Put(job, size))
            self._puts += 1
            self._bytes += size
            self._changed.notify()

    def request(self, job: Callable[[sqlite3.Connection], Result]) -> Future[Result]:
        """The result of reading; the future holds sqlite3.Error where that fails."""
        answer: Future[Result] = Future()
        with self._changed:
            if self._closing:
                answer.set_exception(sqlite3.ProgrammingError("the store is closed"))
            else:
                self._queue.append(_Request(job, answer))
                self._changed.notify()
        return answer

    def close(self, timeout_seconds: float) -> bool:
        """Write what waits and close the database; whether that was done in time."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._closing)
                if not self._queue:
                    break
                puts, request = self._taken()
            if puts:
                self._write(puts)
            if request is not None:
                self._answer(request)
        self._connection.close()

    def _taken(self) -> tuple[list[_Put], _Request | None]:
        """All puts up to the next request, and that."""
        puts: list[_Put] = []
        while self._queue:
            taken = self._queue.popleft()
            if isinstance(taken, _Request):
                return puts, taken
            puts.append(taken)
            self._puts -= 1
            self._bytes -= taken.size
        return puts, None

    def _write(self, puts: Sequence[_Put]) -> None:
        try:
            try:
                self._transaction(puts)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._begin_anew()
                self._transaction(puts)
            self.problem = ""
        except sqlite3.OperationalError as error:
            self._failed(error, len(puts))
        except Exception as error:
            # A value that SQLite won't take, or a fault of ours: the others shall not be lost by
            # it, nor this thread.
            if len(puts) == 1:
                self._failed(error, 1)
                return
            for put in puts:
                self._write([put])

    def _transaction(self, puts: Sequence[_Put]) -> None:
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            for put in puts:
                put.job(self._connection)

    def _failed(self, error: Exception, lost: int) -> None:
        self.problem = f"the store cannot be written: {error}"
        self.dropped += lost

    def _begin_anew(self) -> None:
        """Replace a damaged database. Raises sqlite3.OperationalError."""
        self._connection.close()
        try:
            database = self._reopen()
        except (StoreError, OSError) as error:
            raise sqlite3.OperationalError(f"it is damaged and not begun anew: {error}") from error
        self._connection = database.connection
        if database.set_aside is not None:
            self.put(self._on_set_aside(database.set_aside), 0)

    def _answer(self, request: _Request) -> None:
        if not request.answer.set_running_or_notify_cancel():
            return
        try:
            request.answer.set_result(request.job(self._connection))
        except sqlite3.Error as error:
            try:
                if is_damage(error):
                    self._begin_anew()
            except sqlite3.OperationalError as worse:
                self.problem = f"the store cannot be read: {worse}"
            request.answer.set_exception(error)
