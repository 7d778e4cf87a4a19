"""`swarmnode export rollouts`: rollouts that are kept, as one file of JSON lines or of Parquet."""

from __future__ import annotations

import importlib.util
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.rollout_search import (
    Peer,
    Round,
    Search,
    Success,
    Task,
    Text,
    Trained,
    found,
    signature,
)
from swarmnode.cli.running import this_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from swarmnode.home import Home


def export_rollouts(
    out: Annotated[
        Path, typer.Option(help="The file to write, .jsonl or .parquet; it must not be there yet.")
    ],
    task: Task = None,
    peer: Peer = None,
    success: Success = None,
    round: Round = None,
    text: Text = None,
    trained: Trained = False,
    count: Annotated[int | None, typer.Option("-n", min=1, help="The newest so many.")] = None,
) -> None:
    """Write the rollouts that are kept, newest first, with all that `rollouts --json` shows.

    Parquet needs the extra `parquet`.
    """
    from swarmnode.cli.rollout_files import write_json_lines, write_parquet

    writers = {".jsonl": write_json_lines, ".parquet": write_parquet}
    if out.suffix not in writers:
        raise Mistake(f"{out} tells no format: name it .jsonl or .parquet")
    if out.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise Mistake(
            f"{out} needs the package pyarrow: pip install 'swarmnode-rl[parquet]', or name it "
            ".jsonl",
            Exit.CONFIG,
        )
    home = this_home()
    values = _values(home, Search(task, peer, success, round, text, trained), count)
    try:
        written = writers[out.suffix](out, values)
    except FileExistsError as error:
        raise Mistake(
            f"{out} is there already and is not overwritten; choose another place", Exit.CONFIG
        ) from error
    except OSError as error:
        raise Mistake(
            f"{error.filename or out} cannot be written: {error.strerror}; choose another file "
            "with --out",
            Exit.CONFIG,
        ) from error
    sys.stdout.write(f"{written} rollout{'' if written == 1 else 's'}: {out}\n")


def _values(home: Home, search: Search, count: int | None) -> Iterator[dict[str, Any]]:
    from swarmnode.cli.rollout_values import values_of

    for each in islice(found(home, search), count):
        yield values_of(each, signature(home, each))
