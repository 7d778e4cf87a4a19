"""The tables, as numbered steps that are never changed once released: add one, at the end.

The number of steps taken is in `user_version` and, so that a flipped bit isn't taken for a newer
version of this program, in the table `migrations` as well. Tables are STRICT: their types are part
of what the check at the start verifies.
"""

from __future__ import annotations

import sqlite3

MIGRATIONS = (
    (
        "CREATE TABLE migrations (number INTEGER PRIMARY KEY) STRICT",
        """CREATE TABLE rounds (
            id INTEGER PRIMARY KEY,
            number INTEGER NOT NULL,
            ended REAL NOT NULL,
            report TEXT NOT NULL
        ) STRICT""",
        """CREATE TABLE bundles (
            id INTEGER PRIMARY KEY,
            created REAL NOT NULL,
            sequence INTEGER NOT NULL,
            bundle_id BLOB NOT NULL,
            size INTEGER NOT NULL
        ) STRICT""",
        """CREATE TABLE bundle_parts (
            bundle INTEGER NOT NULL REFERENCES bundles (id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (bundle, position)
        ) STRICT""",
        """CREATE TABLE peers (
            peer TEXT PRIMARY KEY,
            first_seen REAL NOT NULL,
            last_seen REAL NOT NULL,
            counts TEXT NOT NULL,
            mutes INTEGER NOT NULL,
            muted_until REAL NOT NULL,
            why TEXT NOT NULL
        ) STRICT""",
        "CREATE INDEX peers_by_last_seen ON peers (last_seen)",
        """CREATE TABLE events (
            id INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            name TEXT NOT NULL,
            text TEXT NOT NULL
        ) STRICT""",
        """CREATE TABLE replay_windows (
            public_key BLOB PRIMARY KEY,
            used INTEGER NOT NULL,
            replay_window BLOB NOT NULL
        ) STRICT""",
        "CREATE INDEX replay_windows_by_used ON replay_windows (used)",
        """CREATE TABLE saved_peers (
            position INTEGER PRIMARY KEY,
            address TEXT NOT NULL
        ) STRICT""",
    ),
    (
        # Which swarm the ones so far belong to is not known.
        "DROP TABLE saved_peers",
        """CREATE TABLE saved_peers (
            swarm BLOB NOT NULL,
            position INTEGER NOT NULL,
            address TEXT NOT NULL,
            PRIMARY KEY (swarm, position)
        ) STRICT""",
    ),
    (
        # Bytes of all bundles before this one: what goes first is found without a look at the rest.
        "ALTER TABLE bundles ADD COLUMN bytes_before INTEGER NOT NULL DEFAULT 0",
        """UPDATE bundles SET bytes_before = sums.bytes - size
            FROM (SELECT id, sum(size) OVER (ORDER BY id) AS bytes FROM bundles) AS sums
            WHERE sums.id = bundles.id""",
        "CREATE INDEX bundles_by_bytes_before ON bundles (bytes_before)",
    ),
    (
        """CREATE TABLE rollouts (
            id INTEGER PRIMARY KEY,
            at REAL NOT NULL,
            own INTEGER NOT NULL,
            publisher BLOB NOT NULL,
            task TEXT NOT NULL,
            level TEXT NOT NULL,
            question INTEGER NOT NULL,
            successes INTEGER NOT NULL,
            completions INTEGER NOT NULL,
            round INTEGER NOT NULL,
            content TEXT NOT NULL,
            trained_in INTEGER,
            treatment TEXT,
            holder TEXT NOT NULL,
            header BLOB NOT NULL,
            encoded BLOB NOT NULL,
            size INTEGER NOT NULL,
            bytes_before INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX bundles_by_created ON bundles (created)",
        "CREATE INDEX rollouts_by_question ON rollouts (question)",
        "CREATE INDEX rollouts_by_bytes_before ON rollouts (bytes_before)",
    ),
)


class NewerDatabase(Exception):
    """A newer version of this program has written the database."""


class StrangeDatabase(Exception):
    """The file is a database, but not one that these migrations can have made."""


def migrate(connection: sqlite3.Connection) -> None:
    """Take the steps that are missing, and check that the tables are what they should be.

    Raises NewerDatabase, StrangeDatabase and sqlite3.Error; half a step is never left behind.
    """
    (taken,) = connection.execute("PRAGMA user_version").fetchone()
    if taken and taken != _recorded(connection):
        raise StrangeDatabase
    if taken > len(MIGRATIONS):
        raise NewerDatabase
    for number, statements in enumerate(MIGRATIONS[taken:], taken + 1):
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in statements:
                connection.execute(statement)
            connection.execute("INSERT INTO migrations VALUES (?)", (number,))
            connection.execute(f"PRAGMA user_version = {number}")
    if _schema(connection) != _expected_schema():
        raise StrangeDatabase


def _recorded(connection: sqlite3.Connection) -> object:
    (number,) = connection.execute("SELECT max(number) FROM migrations").fetchone()
    return number


def _schema(connection: sqlite3.Connection) -> list[tuple[str, str, str | None]]:
    return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY name").fetchall()


def _expected_schema() -> list[tuple[str, str, str | None]]:
    connection = sqlite3.connect(":memory:")
    try:
        for statements in MIGRATIONS:
            for statement in statements:
                connection.execute(statement)
        return _schema(connection)
    finally:
        connection.close()
