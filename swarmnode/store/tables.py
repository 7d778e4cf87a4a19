"""The SQL: what writes a row and keeps its table within bounds, and what reads it back.

Writers are jobs for the thread that owns the connection; everything in them is made ready before.
Rows that don't say what they should (a flipped bit) are left out by readers, never an error.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from swarmnode.store.records import Event, PeerRecord, PublishedBundle, StoredRound
from swarmnode.store.writer import Job
from swarmproto import ReplayWindow, WireError

Value = TypeVar("Value")

_ANNOUNCEMENT, _HEADER, _GROUPS = 0, 1, 2
"""Positions in bundle_parts: groups from 2 on."""
_BUNDLES = "SELECT id, created, sequence, bundle_id FROM bundles"


def insert_round(row: tuple[int, float, str], limit: int) -> Job:
    """`row` is number, end and report."""

    def job(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO rounds (number, ended, report) VALUES (?, ?, ?)", row)
        connection.execute(
            "DELETE FROM rounds WHERE id <= (SELECT max(id) FROM rounds) - ?", (limit,)
        )

    return job


def select_rounds(connection: sqlite3.Connection, count: int) -> Sequence[StoredRound]:
    """Newest first."""
    rows = connection.execute(
        "SELECT number, ended, report FROM rounds ORDER BY id DESC LIMIT ?", (count,)
    )
    return list(_readable(rows, lambda number, ended, text: StoredRound(number, ended, _map(text))))


def select_history(
    connection: sqlite3.Connection, recent: int, older: int, every: int
) -> Sequence[StoredRound]:
    """The newest `recent` rounds, and of those before about `older` at equal distances, oldest
    first.

    The distance is a multiple of `every`, so that rounds whose numbers are one are among them.
    """
    (first, newest) = connection.execute("SELECT min(number), max(number) FROM rounds").fetchone()
    if newest is None:
        return []
    border = newest - recent
    step = every * max(1, -((border - first) // -(older * every)))
    rows = connection.execute(
        "SELECT number, ended, report FROM rounds WHERE id IN "
        "(SELECT id FROM rounds WHERE number > ? OR number % ? = 0) ORDER BY id",
        (border, step),
    )
    return list(_readable(rows, lambda number, ended, text: StoredRound(number, ended, _map(text))))


def insert_bundle(bundle: PublishedBundle, limit_bytes: int) -> Job:
    """The newest stays even where it is larger than the limit."""
    head = (bundle.created, bundle.sequence, bundle.bundle_id, bundle.size)
    parts = (bundle.announcement, bundle.header, *bundle.groups)

    def job(connection: sqlite3.Connection) -> None:
        (before,) = connection.execute(
            "SELECT coalesce((SELECT bytes_before + size FROM bundles ORDER BY id DESC LIMIT 1), 0)"
        ).fetchone()
        number = connection.execute(
            "INSERT INTO bundles (created, sequence, bundle_id, size, bytes_before)"
            " VALUES (?, ?, ?, ?, ?)",
            (*head, before),
        ).lastrowid
        connection.executemany(
            "INSERT INTO bundle_parts VALUES (?, ?, ?)",
            [(number, position, data) for position, data in enumerate(parts)],
        )
        connection.execute(
            "DELETE FROM bundles WHERE bytes_before < ? AND id < ?",
            (before + bundle.size - limit_bytes, number),
        )

    return job


def select_bundles(connection: sqlite3.Connection, count: int) -> Sequence[PublishedBundle]:
    """Newest first."""
    rows = connection.execute(f"{_BUNDLES} ORDER BY id DESC LIMIT ?", (count,)).fetchall()
    return _bundles(connection, rows)


def select_bundles_from(
    connection: sqlite3.Connection, moment: float, count: int
) -> Sequence[PublishedBundle]:
    """The first that were made at a moment, in seconds since 1970, or later."""
    rows = connection.execute(
        f"{_BUNDLES} WHERE created >= ? ORDER BY created LIMIT ?", (moment, count)
    ).fetchall()
    return _bundles(connection, rows)


def _bundles(
    connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]
) -> Sequence[PublishedBundle]:
    def bundle(number: int, created: float, sequence: int, bundle_id: bytes) -> PublishedBundle:
        parts = [
            data
            for (data,) in connection.execute(
                "SELECT data FROM bundle_parts WHERE bundle = ? ORDER BY position", (number,)
            )
        ]
        return PublishedBundle(
            created,
            sequence,
            bundle_id,
            parts[_ANNOUNCEMENT],
            parts[_HEADER],
            tuple(parts[_GROUPS:]),
        )

    return list(_readable(rows, bundle))


def upsert_peer(record: PeerRecord, limit: int) -> Job:
    """Peers seen longest ago make room; the time when one was first seen stays."""
    row = (
        record.peer,
        record.first_seen,
        record.last_seen,
        json.dumps(dict(record.counts)),
        record.mutes,
        record.muted_until,
        _encodable(record.why),
    )

    def job(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT INTO peers VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (peer) DO UPDATE SET "
            "first_seen = min(first_seen, excluded.first_seen), last_seen = excluded.last_seen, "
            "counts = excluded.counts, mutes = excluded.mutes, "
            "muted_until = excluded.muted_until, why = excluded.why",
            row,
        )
        _keep_newest(connection, "peers", "last_seen", limit)

    return job


def select_peers(connection: sqlite3.Connection, count: int) -> Sequence[PeerRecord]:
    """Last seen first."""
    rows = connection.execute(
        "SELECT peer, first_seen, last_seen, counts, mutes, muted_until, why FROM peers "
        "ORDER BY last_seen DESC LIMIT ?",
        (count,),
    )
    return list(
        _readable(
            rows,
            lambda peer, first, last, counts, mutes, until, why: PeerRecord(
                peer, first, last, _counts(counts), mutes, until, why
            ),
        )
    )


def insert_event(event: Event, limit: int) -> Job:
    """Keeps an event."""
    row = (event.at, event.name, _encodable(event.text))

    def job(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO events (at, name, text) VALUES (?, ?, ?)", row)
        connection.execute(
            "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?", (limit,)
        )

    return job


def select_events(connection: sqlite3.Connection, count: int) -> Sequence[Event]:
    """Newest first."""
    rows = connection.execute(
        "SELECT at, name, text FROM events ORDER BY id DESC LIMIT ?", (count,)
    )
    return list(_readable(rows, Event))


def upsert_window(public_key: bytes, data: bytes, limit: int) -> Job:
    """Keys used longest ago make room."""

    def job(connection: sqlite3.Connection) -> None:
        connection.execute(
            "INSERT OR REPLACE INTO replay_windows "
            "VALUES (?, (SELECT coalesce(max(used), 0) + 1 FROM replay_windows), ?)",
            (public_key, data),
        )
        _keep_newest(connection, "replay_windows", "used", limit)

    return job


def select_windows(connection: sqlite3.Connection) -> dict[bytes, ReplayWindow]:
    """Used longest ago first."""
    rows = connection.execute("SELECT public_key, replay_window FROM replay_windows ORDER BY used")
    return dict(_readable(rows, lambda key, data: (key, ReplayWindow.from_bytes(data))))


def replace_saved_peers(swarm_id: bytes, addresses: Sequence[str]) -> Job:
    """All of one swarm at once."""
    rows = [(swarm_id, position, address) for position, address in enumerate(addresses)]

    def job(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM saved_peers WHERE swarm = ?", (swarm_id,))
        connection.executemany("INSERT INTO saved_peers VALUES (?, ?, ?)", rows)

    return job


def select_saved_peers(connection: sqlite3.Connection, swarm_id: bytes) -> Sequence[str]:
    """Of one swarm, in the order they were kept."""
    rows = connection.execute(
        "SELECT address FROM saved_peers WHERE swarm = ? ORDER BY position", (swarm_id,)
    )
    return [address for (address,) in rows]


def _keep_newest(connection: sqlite3.Connection, table: str, column: str, limit: int) -> None:
    (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    if rows > limit:
        connection.execute(
            f"DELETE FROM {table} WHERE rowid IN "
            f"(SELECT rowid FROM {table} ORDER BY {column} LIMIT ?)",
            (rows - limit,),
        )


def _readable(rows: Iterable[tuple[Any, ...]], made: Callable[..., Value]) -> Iterator[Value]:
    for row in rows:
        try:
            yield made(*row)
        except (ValueError, TypeError, IndexError, WireError):
            continue


def _map(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _counts(text: str) -> dict[str, int]:
    return {name: int(count) for name, count in _map(text).items()}


def _encodable(text: str) -> str:
    """Without the lone surrogates that a stranger's text may hold and SQLite refuses."""
    return text.encode("utf-8", "replace").decode()
