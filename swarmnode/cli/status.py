"""`swarmnode status`: what the running node does, on one screen or as JSON."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.running import asked, this_home

if TYPE_CHECKING:
    from rich.console import RenderableType

    from swarmnode.home import Home

WATCH_SECONDS = 1.0


def status(
    as_json: Annotated[
        bool, typer.Option("--json", help="The whole document; with --watch one a line.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show it anew every second.")] = False,
) -> None:
    """Show what the node that runs with this home is doing.

    Exit code 4 when none runs; docs/errors.md has the others.
    """
    home = this_home()
    if not watch:
        _show(home, asked(home, "status"), as_json=as_json)
    elif as_json or not sys.stdout.isatty():
        while True:
            _show(home, asked(home, "status"), as_json=as_json, one_line=True)
            time.sleep(WATCH_SECONDS)
    else:
        from rich.live import Live

        first = _screen(home, asked(home, "status"))
        with Live(first, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(WATCH_SECONDS)
                live.update(_screen(home, asked(home, "status")), refresh=True)


def _show(home: Home, document: Any, *, as_json: bool, one_line: bool = False) -> None:
    if as_json:
        # ASCII alone: a peer's text reaches no terminal raw.
        sys.stdout.write(json.dumps(document, indent=None if one_line else 2) + "\n")
    elif one_line:
        from swarmnode.observe.words import plain

        sys.stdout.write(plain(str(document["summary"])) + "\n")
    else:
        from rich.console import Console

        Console(file=sys.stdout, highlight=False).print(_screen(home, document))
    sys.stdout.flush()


def _screen(home: Home, document: Any) -> RenderableType:
    from swarmnode.api.secret import address_of, read_secret
    from swarmnode.cli.status_screen import screen
    from swarmnode.observe.status import StatusDocument, StatusError

    try:
        status = StatusDocument.from_json(document)
        secret = read_secret(home.dashboard_secret)
        return screen(status, address_of(status.dashboard, secret) if status.dashboard else "")
    except StatusError as error:
        raise Mistake(
            f"{error}; the node may be of another version: try --json", Exit.FAILURE
        ) from error
