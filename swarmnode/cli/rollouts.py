"""`swarmnode rollouts`: what this node asked, answered and took of peers, and what left it."""

from __future__ import annotations

import json
import sys
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.exits import Mistake
from swarmnode.cli.rollout_search import (
    Peer,
    Round,
    Search,
    Success,
    Task,
    Text,
    Trained,
    found,
    one,
    signature,
)
from swarmnode.cli.running import this_home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmnode.home import Home
    from swarmnode.store.records import StoredRollout

LISTED = 20
MOST = 100_000


def rollouts(
    number: Annotated[
        int | None, typer.Argument(metavar="ID", help="One of them, to be shown in full.")
    ] = None,
    task: Task = None,
    peer: Peer = None,
    success: Success = None,
    round: Round = None,
    text: Text = None,
    trained: Trained = False,
    count: Annotated[
        int | None,
        typer.Option("-n", min=1, max=MOST, help="How many, the newest; 20, or 1 --outgoing."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON, one object a line; docs/data.md.")
    ] = False,
    outgoing: Annotated[
        bool, typer.Option("--outgoing", help="Own bundles, as they left this machine.")
    ] = False,
    as_hex: Annotated[
        bool, typer.Option("--hex", help="With --outgoing: the exact bytes.")
    ] = False,
) -> None:
    """Browse the rollouts that are kept: questions, answers, scores, and what became of them.

    A number in the first column shows that one in full: who asked it and when, whether the
    signature holds, which round trained on it. The node need not be running.
    """
    home = this_home()
    search = Search(task, peer, success, round, text, trained)
    if outgoing:
        from swarmnode.cli.outgoing import show_outgoing

        if search.narrows or number is not None:
            raise Mistake("--outgoing goes with -n and --hex alone; leave it out to search")
        show_outgoing(home, count or 1, as_hex=as_hex)
    elif as_hex:
        raise Mistake("--hex shows bundles: give --outgoing too")
    elif number is None:
        chosen = list(islice(found(home, search), count or LISTED))
        _list(home, chosen, as_json=as_json)
        if not chosen and not as_json:
            sys.stderr.write(f"{_nothing_found(task)}\n")
    elif search.narrows or count is not None:
        raise Mistake("give the number of one rollout or what to search by, not both")
    else:
        _show(home, one(home, number), as_json=as_json)


def _list(home: Home, chosen: Sequence[StoredRollout], *, as_json: bool) -> None:
    from swarmnode.cli.rollout_screen import list_lines

    if as_json:
        for each in chosen:
            sys.stdout.write(f"{_json(home, each)}\n")
    elif chosen:
        for line in list_lines(chosen):
            sys.stdout.write(f"{line}\n")


def _nothing_found(task: str | None) -> str:
    """In a line, and why that may be where there is no such task."""
    from swarmnode.tasks.errors import TaskError
    from swarmnode.tasks.registry import check, levels_of

    told = "none is kept of which this is true"
    name, _, level = (task or "").partition(":")
    try:
        if level:
            check(name, level)
        elif name:
            levels_of(name)
    except TaskError as error:
        return f"{told}: {error}"
    return told


def _show(home: Home, stored: StoredRollout, *, as_json: bool) -> None:
    from swarmnode.cli.rollout_screen import whole_lines
    from swarmnode.cli.rollout_values import values_of

    if as_json:
        sys.stdout.write(f"{_json(home, stored)}\n")
        return
    for line in whole_lines(values_of(stored, signature(home, stored))):
        sys.stdout.write(f"{line}\n")


def _json(home: Home, stored: StoredRollout) -> str:
    """ASCII alone: a stranger's text reaches no terminal raw."""
    from swarmnode.cli.rollout_values import values_of

    return json.dumps(values_of(stored, signature(home, stored)))
