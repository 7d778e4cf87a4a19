"""`swarmnode logs`: what the node's processes wrote, in the order of time."""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.running import this_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FOLLOW_SECONDS = 0.25


def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as more comes.")] = False,
    count: Annotated[int, typer.Option("-n", min=0, help="Entries, the newest.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="The entries as JSON lines.")] = False,
) -> None:
    """Show the log of the node with this home, running or not."""
    from swarmnode.observe.log_reading import LogReader

    folder = this_home().log
    with closing(LogReader(folder)) as reader:
        with _reading():
            last = reader.last(count)
        if not last and not follow and count:
            raise Mistake(f"there is no log in {folder}; a running node writes it", Exit.CONFIG)
        _show(last, as_json=as_json)
        while follow:
            time.sleep(FOLLOW_SECONDS)
            with _reading():
                more = reader.new()
            _show(more, as_json=as_json)


@contextmanager
def _reading() -> Iterator[None]:
    """Raises Mistake in place of what a file that can't be read raises."""
    try:
        yield
    except OSError as error:
        raise Mistake(
            f"{error.filename} cannot be read: {error.strerror}; do this as the user whose node it"
            " is",
            Exit.CONFIG,
        ) from error


def _show(entries: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    from swarmnode.observe.log import readable

    for entry in entries:
        sys.stdout.write((json.dumps(entry) if as_json else readable(entry)) + "\n")
    sys.stdout.flush()
