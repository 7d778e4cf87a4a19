"""`swarmnode peers`: whom the running node knows, and what is held against one of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.running import asked, this_home
from swarmnode.prefixes import EXEMPT

if TYPE_CHECKING:
    from rich.table import Table

    from swarmnode.api.documents import PeerStatus

HEADINGS = ("peer", "connected", "fetched", "served", "admitted", "dropped", "muted or short")
HALF = 0.5
"""From here on down what is left to a peer is told."""


def peers(
    why: Annotated[
        str | None,
        typer.Option(help="A peer, by its id or any part that no other has: what is held against."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """List the peers that the running node knows: traffic, what was dropped and why, mutes.

    Quality is the share of a peer's groups that was of use lately; nobody is muted for it.
    """
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

    from swarmnode.observe.words import plain, size_of

    table = Table(box=None, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for each in known:
        dropped = ", ".join(f"{name} {count}" for name, count in sorted(each.dropped.items()))
        cells = (
            each.peer,
            _connected(each),
            size_of(each.fetched_bytes),
            size_of(each.served_bytes),
            str(each.admitted) + ("" if each.quality is None else f", quality {each.quality:.2f}"),
            dropped or "-",
            _short(each),
        )
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table


def _connected(each: PeerStatus) -> str:
    from swarmnode.observe.words import lasting

    if not each.connected:
        return "no"
    since = "yes" if each.seconds_connected is None else lasting(each.seconds_connected)
    here = not each.prefix or each.prefix.startswith(EXEMPT)
    return since if here else f"{since}, from {each.prefix}"


def _short(each: PeerStatus) -> str:
    """What it may not have now: mute, refusal, and what of its allowances is used up by half."""
    from swarmnode.observe.words import lasting

    words = [f"{name} {share:.0%}" for name, share in sorted(each.left.items()) if share < HALF]
    if each.turned_away:
        words.insert(0, f"{each.turned_away} turned away")
    if each.muted_seconds > 0:
        words.insert(0, f"for {lasting(each.muted_seconds)}")
    elif each.refused:
        words.insert(0, "refused")
    return ", ".join(words) or "-"
