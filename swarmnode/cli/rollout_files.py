"""Rollouts as files. Each is whole or not there: it is written beside its place, then renamed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from swarmnode.files import synchronize

ROWS_AT_ONCE = 1000
"""Of a Parquet row group, which is held in memory."""


def write_json_lines(path: Path, rollouts: Iterable[Mapping[str, Any]]) -> int:
    """A JSON object a line; how many. Raises FileExistsError and OSError."""
    count = 0
    with _placed(path) as temporary, temporary.open("w", encoding="ascii") as file:
        for each in rollouts:
            file.write(f"{json.dumps(each)}\n")
            count += 1
    return count


def write_parquet(path: Path, rollouts: Iterable[Mapping[str, Any]]) -> int:
    """A row each, nested as the JSON is, compressed by Zstandard; how many. Raises as above."""
    from pyarrow import Table
    from pyarrow.parquet import ParquetWriter

    schema, left, count = _schema(), iter(rollouts), 0
    with (
        _placed(path) as temporary,
        ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        while rows := [_encodable(each) for each in islice(left, ROWS_AT_ONCE)]:
            writer.write_table(Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count


@contextmanager
def _placed(path: Path) -> Iterator[Path]:
    """A name to write to, which becomes `path` when all went well."""
    _check_free(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        synchronize(temporary)
        _check_free(path)
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)
    synchronize(path.parent)


def _check_free(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError(path)


def _encodable(value: Any) -> Any:
    """Without the lone surrogates that JSON can have, and UTF-8 not."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case Mapping():
            return {name: _encodable(each) for name, each in value.items()}
        case Sequence():
            return [_encodable(each) for each in value]
    return value


def _schema() -> Any:
    """The columns; docs/data.md has what they mean."""
    import pyarrow as arrow

    text, number, real, truth = arrow.string(), arrow.int64(), arrow.float64(), arrow.bool_()
    completion = arrow.struct(
        {
            "text": text, "finish_reason": text, "tokens": number, "score": real,
            "success": truth, "advantage": real, "excluded": truth,
        }
    )  # fmt: skip
    signature = arrow.struct(
        {
            "verified": truth, "problem": text, "bundle_id": text, "sequence": number,
            "created": real, "swarm_id": text, "sent_completions": number,
        }
    )  # fmt: skip
    return arrow.schema(
        {
            "id": number, "time": real, "own": truth, "peer_id": text, "public_key": text,
            "task": text, "level": text, "index": number, "round": number, "trained_in": number,
            "correction": text, "why": text,
            "policy": arrow.struct({"name": text, "version": number}),
            "question": text, "answer": text, "pass_rate": real,
            "completions": arrow.list_(completion), "served_by": text, "signature": signature,
        }
    )  # fmt: skip
