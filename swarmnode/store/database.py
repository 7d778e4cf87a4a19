"""Opening the database, and setting a damaged one aside: nothing is ever deleted or repaired.

Knows no table. SQLite has no checksums: what its own check, the schema and the STRICT types don't
show is a changed value, which only rows that are read as JSON can reveal.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import gmtime, strftime

from swarmnode.store.migrations import NewerDatabase, StrangeDatabase, migrate

_LEAST_PAGE_BYTES = 512
_ELSEWHERE = "another place may do: the environment variable SWARMNODE_HOME"
_SIDE_FILES = ("", "-wal", "-shm")
_NOT_ITS_FAULT = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class StoreError(Exception):
    """The store cannot be used; the text is one line that names the remedy."""


@dataclass(frozen=True, slots=True)
class Database:
    """An open database, and where a damaged one was put that lay in its place."""

    connection: sqlite3.Connection
    set_aside: Path | None


def open_database(path: Path, now: Callable[[], float]) -> Database:
    """Open or make it; a damaged one is renamed and a new one begun. Raises StoreError."""
    try:
        try:
            return Database(_opened(path), None)
        except StrangeDatabase:
            aside = set_aside(path, now())
            return Database(_opened(path), aside)
    except NewerDatabase:
        raise StoreError(
            f"{path} was written by a newer version of swarmnode: update swarmnode, or take "
            "another home with the environment variable SWARMNODE_HOME"
        ) from None
    except StrangeDatabase:
        raise StoreError(
            f"{path} cannot be made: what is written isn't what is read; {_ELSEWHERE}"
        ) from None
    except sqlite3.Error as error:
        raise StoreError(f"{path} cannot be opened: {error}; {_ELSEWHERE}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be set aside: {error.strerror}; {_ELSEWHERE}") from error


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error in the midst of work says that the file itself is damaged."""
    return _primary_code(error) in _DAMAGED


def _primary_code(error: sqlite3.Error) -> int:
    """0 for errors of the module itself, such as a text that cannot be decoded."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _opened(path: Path) -> sqlite3.Connection:
    """Raises StrangeDatabase for a damaged file, NewerDatabase, and sqlite3.Error for others."""
    _check_file(path)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        connection.text_factory = _lenient_text
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        # It stops at the first fault, and reads every page otherwise.
        if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise StrangeDatabase
        migrate(connection)
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        connection.close()
        if _primary_code(error) in _NOT_ITS_FAULT:
            raise
        raise StrangeDatabase from error
    except BaseException:
        connection.close()
        raise
    path.chmod(0o600)
    return connection


def _check_file(path: Path) -> None:
    """Finds the damage that SQLite doesn't see, or takes for an empty or a read-only file.

    Source: the SQLite database file format, section 1.3. Raises StrangeDatabase.
    """
    try:
        with path.open("rb") as file:
            header = file.read(_LEAST_PAGE_BYTES)
            size = os.fstat(file.fileno()).st_size
        wal = path.with_name(path.name + "-wal")
        settled = not wal.exists() or wal.stat().st_size == 0
    except OSError:
        return  # SQLite says it better.
    if size == 0:
        return
    versions = set(header[18:20])
    page_bytes = int.from_bytes(header[16:18], "big")  # 1 stands for 65536; ours are smaller.
    if size < _LEAST_PAGE_BYTES or not versions <= {1, 2} or page_bytes < _LEAST_PAGE_BYTES:
        raise StrangeDatabase
    if settled and size % page_bytes:
        raise StrangeDatabase


def _lenient_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def set_aside(path: Path, now: float) -> Path:
    """Rename a file, and what SQLite keeps beside it, to a free name. Raises OSError."""
    stem = f"{path.name}.bad-{strftime('%Y%m%dT%H%M%SZ', gmtime(now))}"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 1000))]
    aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    for suffix in _SIDE_FILES:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside
