"""The rows of rollouts: what each statement writes and reads. Text is kept as ASCII JSON."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from swarmnode.store.records import Evidence, NewRollout, StoredRollout, Treatment
from swarmnode.store.writer import Job

_ROW_BYTES = 512
"""Of a row beside its texts and bytes, with what a step adds to it."""
_COLUMNS = (
    "id, at, own, publisher, task, level, question, successes, completions, round, content, "
    "trained_in, treatment, holder, header, encoded"
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rollouts are looked for; what is None or empty lets all through."""

    number: int | None = None
    task: str = ""
    level: str = ""
    publishers: Sequence[bytes] | None = None
    own: bool | None = None
    success: str = ""
    """`all`, `some` or `none` of the completions."""
    rounds: tuple[int, int] | None = None
    """First and last: under way in one of these, or trained on in one of these."""
    trained: bool = False
    """Only what was trained on."""


_SUCCESS = {
    "all": "successes = completions",
    "some": "successes > 0 AND successes < completions",
    "none": "successes = 0",
}


def size_of_row(rollout: NewRollout, content: str) -> int:
    """Bytes that a rollout is counted with."""
    evidence = rollout.evidence
    return _ROW_BYTES + len(content) + (len(evidence.header + evidence.group) if evidence else 0)


def insert_rollouts(rollouts: Sequence[tuple[NewRollout, str]], limit_bytes: int) -> Job:
    """Each with its content as text; the newest stays even where it is larger than the limit."""

    def job(connection: sqlite3.Connection) -> None:
        (before,) = connection.execute(
            "SELECT coalesce("
            "(SELECT bytes_before + size FROM rollouts ORDER BY id DESC LIMIT 1), 0)"
        ).fetchone()
        for each, content in rollouts:
            size = size_of_row(each, content)
            connection.execute(
                "INSERT INTO rollouts VALUES "
                "(NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?, ?, ?)",
                (*_values(each, content), size, before),
            )
            before += size
        connection.execute(
            "DELETE FROM rollouts WHERE bytes_before < ? AND id < (SELECT max(id) FROM rollouts)",
            (before - limit_bytes,),
        )

    return job


def _values(each: NewRollout, content: str) -> tuple[Any, ...]:
    evidence = each.evidence or Evidence("", b"", b"")
    return (
        each.at, int(each.own), each.publisher, each.task, each.level, each.question,
        each.successes, each.completions, each.round, content,
        evidence.holder.encode("utf-8", "replace").decode(), evidence.header, evidence.group,
    )  # fmt: skip


def update_treated(treatments: Sequence[Treatment]) -> Job:
    """What a step made of rollouts; those that are not kept are left out."""
    rows = [
        (each.trained_in, json.dumps(dict(each.content)), each.question, each.publisher, each.task,
         each.level)
        for each in treatments
    ]  # fmt: skip

    def job(connection: sqlite3.Connection) -> None:
        connection.executemany(
            "UPDATE rollouts SET trained_in = ?, treatment = ? WHERE id = (SELECT max(id) FROM "
            "rollouts WHERE question = ? AND publisher = ? AND task = ? AND level = ?)",
            rows,
        )

    return job


def select_rollouts(connection: sqlite3.Connection, wanted: Wanted) -> Iterator[StoredRollout]:
    """Newest first, one at a time; rows that can't be read are left out."""
    conditions, values = _conditions(wanted)
    for row in connection.execute(
        f"SELECT {_COLUMNS} FROM rollouts{conditions} ORDER BY id DESC", values
    ):
        try:
            yield _rollout(*row)
        except (ValueError, TypeError):
            continue


def _conditions(wanted: Wanted) -> tuple[str, list[object]]:
    given: list[tuple[str, Sequence[object]]] = []
    if wanted.number is not None:
        given.append(("id = ?", [wanted.number]))
    if wanted.task:
        given.append(("task = ?", [wanted.task]))
    if wanted.level:
        given.append(("level = ?", [wanted.level]))
    if wanted.publishers is not None:
        marks = ", ".join("?" * len(wanted.publishers))
        given.append((f"publisher IN ({marks})", wanted.publishers))
    if wanted.own is not None:
        given.append(("own = ?", [int(wanted.own)]))
    if wanted.success:
        given.append((_SUCCESS[wanted.success], []))
    if wanted.rounds is not None:
        given.append(("(round BETWEEN ? AND ? OR trained_in BETWEEN ? AND ?)", wanted.rounds * 2))
    if wanted.trained:
        given.append(("trained_in IS NOT NULL", []))
    where = " AND ".join(condition for condition, _ in given)
    return f" WHERE {where}" if where else "", [value for _, values in given for value in values]


def select_publishers(connection: sqlite3.Connection) -> Sequence[bytes]:
    """Of all rollouts that are kept."""
    rows = connection.execute("SELECT DISTINCT publisher FROM rollouts")
    return [publisher for (publisher,) in rows]


def _rollout(
    number: int, at: float, own: int, publisher: bytes, task: str, level: str, question: int,
    successes: int, completions: int, round: int, content: str, trained_in: int | None,
    treatment: str | None, holder: str, header: bytes, encoded: bytes,
) -> StoredRollout:  # fmt: skip
    evidence = Evidence(holder, header, encoded) if header else None
    return StoredRollout(
        number,
        NewRollout(
            at, bool(own), publisher, task, level, question, successes, completions, round,
            json.loads(content), evidence,
        ),
        trained_in,
        json.loads(treatment) if treatment else {},
    )  # fmt: skip
