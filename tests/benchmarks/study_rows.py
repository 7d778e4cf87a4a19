"""The rows of a study in its file under docs/results: written, read, and put beside other stages'.

A row is a run. Knows no study.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from swarmnode.files import write_atomically

Rows = Sequence[Mapping[str, Any]]
Row = TypeVar("Row", bound=Mapping[str, Any])
Arm = TypeVar("Arm")


def write_rows(file: Path, rows: Rows) -> None:
    """A JSON file with a row a line."""
    text = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in rows)
    write_atomically(file, f"[\n{text}\n]\n")


def read_rows(file: Path) -> list[Any]:
    """What `write_rows` wrote; empty where there is no such file yet."""
    found: list[Any] = json.loads(file.read_text("utf-8")) if file.exists() else []
    return found


def keep_rows(file: Path, rows: Rows) -> list[Any]:
    """Put rows into the file in place of those of their stages; returns all."""
    stages = {row["stage"] for row in rows}
    kept = [row for row in read_rows(file) if row["stage"] not in stages] + list(rows)
    write_rows(file, kept)
    return kept


def by_arm_and_seed(rows: Iterable[Row], arm_of: Callable[[Row], Arm]) -> dict[Arm, dict[int, Row]]:
    """The runs of each arm. Raises ValueError where a seed of an arm comes twice."""
    found: dict[Arm, dict[int, Row]] = {}
    for row in rows:
        of_arm = found.setdefault(arm_of(row), {})
        if row["seed"] in of_arm:
            raise ValueError(f"{arm_of(row)}: seed {row['seed']} comes twice")
        of_arm[row["seed"]] = row
    return found
