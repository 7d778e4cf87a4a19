"""Reading a store without owning it: that of a stopped node, or of one that runs.

Only reads. A store that is not there holds nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from swarmnode.store import tables
from swarmnode.store.records import PublishedBundle, StoredRound

ALL = 2**31

Row = TypeVar("Row")


def stored_rounds(database: Path, count: int = ALL) -> Sequence[StoredRound]:
    """The newest rounds, newest first. Raises sqlite3.Error for a store that cannot be read."""
    return _read(database, lambda connection: tables.select_rounds(connection, count))


def stored_bundles(database: Path, count: int) -> Sequence[PublishedBundle]:
    """The newest own bundles, newest first. Raises as above."""
    return _read(database, lambda connection: tables.select_bundles(connection, count))


def _read(database: Path, select: Callable[[sqlite3.Connection], Sequence[Row]]) -> Sequence[Row]:
    if not database.exists():
        return ()
    connection = sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return select(connection)
    finally:
        connection.close()
