"""Reading a store without owning it: that of a stopped node, or of one that runs.

Only reads. A store that is not there holds nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from swarmnode.store import rollout_rows, tables
from swarmnode.store.records import PublishedBundle, StoredRollout, StoredRound
from swarmnode.store.rollout_rows import Wanted

ALL = 2**31

Row = TypeVar("Row")


def stored_rounds(database: Path, count: int = ALL) -> Sequence[StoredRound]:
    """The newest rounds, newest first. Raises sqlite3.Error for a store that cannot be read."""
    return _read(database, lambda connection: tables.select_rounds(connection, count))


def stored_bundles(database: Path, count: int) -> Sequence[PublishedBundle]:
    """The newest own bundles, newest first. Raises as above."""
    return _read(database, lambda connection: tables.select_bundles(connection, count))


def bundles_from(database: Path, moment: float, count: int) -> Sequence[PublishedBundle]:
    """The first own bundles of that moment or later, in order. Raises as above."""
    return _read(database, lambda connection: tables.select_bundles_from(connection, moment, count))


def rollout_publishers(database: Path) -> Sequence[bytes]:
    """Whose rollouts are kept. Raises as above."""
    return _read(database, _if_kept(rollout_rows.select_publishers))


def stored_rollouts(database: Path, wanted: Wanted) -> Iterator[StoredRollout]:
    """Rollouts, newest first, read as they are asked for. Raises as above."""
    with _opened(database) as connection:
        if connection is not None and _keeps_rollouts(connection):
            yield from rollout_rows.select_rollouts(connection, wanted)


def _if_kept(
    select: Callable[[sqlite3.Connection], Sequence[Row]],
) -> Callable[[sqlite3.Connection], Sequence[Row]]:
    return lambda connection: select(connection) if _keeps_rollouts(connection) else ()


def _keeps_rollouts(connection: sqlite3.Connection) -> bool:
    """A store that a version before has written gets the table when a node opens it."""
    (found,) = connection.execute(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'rollouts'"
    ).fetchone()
    return bool(found)


def _read(database: Path, select: Callable[[sqlite3.Connection], Sequence[Row]]) -> Sequence[Row]:
    with _opened(database) as connection:
        return () if connection is None else select(connection)


@contextmanager
def _opened(database: Path) -> Iterator[sqlite3.Connection | None]:
    if not database.exists():
        yield None
        return
    uri = f"{database.absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        yield connection
