"""`swarmnode peers`: whom the running node knows, and what is held against one of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.running import asked, this_home

if TYPE_CHECKING:
    from rich.table import Table

    from swarmnode.api.documents import PeerStatus


def peers(
    why: Annotated[
        str | None,
        typer.Option(help="A peer, by its id or any part that no other has: what is held against."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the peers that the running node knows: traffic, what was dropped and why, mutes."""
    home = this_home()
    document = asked(home, "peers")
    if why is not None:
        asking = f"why {_whole_id(_known(document), why)}"
        _show_why(asked(home, asking), as_json=as_json)
    elif as_json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
    elif known := _known(document):
        from rich.console import Console

        Console(file=sys.stdout, highlight=False).print(_table(known))
    else:
        sys.stdout.write("no peer is known yet\n")


def _known(document: Any) -> Sequence[PeerStatus]:
    from pydantic import ValidationError

    from swarmnode.api.documents import PeersDocument

    try:
        return PeersDocument.model_validate(document).peers
    except ValidationError as error:
        raise Mistake(
            "the node's answer is of another version: try --json", Exit.FAILURE
        ) from error


def _whole_id(known: Sequence[PeerStatus], part: str) -> str:
    matching = [each.peer for each in known if part in each.peer]
    if part in matching or not matching:
        return part
    if len(matching) > 1:
        raise Mistake(f"{len(matching)} peers have {part!r} in their id; write more of it")
    return matching[0]


def _show_why(document: Any, *, as_json: bool) -> None:
    from swarmnode.observe.words import plain

    if as_json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    for line in (document["peer"], *(f"  {line}" for line in document["lines"])):
        sys.stdout.write(plain(str(line)) + "\n")


def _table(known: Sequence[PeerStatus]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from swarmnode.observe.words import lasting, plain, size_of

    table = Table(box=None, pad_edge=False)
    for heading in ("peer", "connected", "fetched", "served", "admitted", "dropped", "muted"):
        table.add_column(heading, overflow="fold")
    for each in known:
        connected = "yes" if each.connected else "no"
        if each.connected and each.seconds_connected is not None:
            connected = lasting(each.seconds_connected)
        dropped = ", ".join(f"{name} {count}" for name, count in sorted(each.dropped.items()))
        cells = (
            each.peer,
            connected,
            size_of(each.fetched_bytes),
            size_of(each.served_bytes),
            str(each.admitted),
            dropped or "-",
            f"for {lasting(each.muted_seconds)}" if each.muted_seconds > 0 else "-",
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table
