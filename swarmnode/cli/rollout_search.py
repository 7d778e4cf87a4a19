"""The options that choose among kept rollouts, and the reading of a home's store by them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.running import reading

if TYPE_CHECKING:
    from swarmnode.home import Home
    from swarmnode.provenance import Signed
    from swarmnode.store.records import StoredRollout

Task = Annotated[str | None, typer.Option(help="Of this task, or task:level.")]
Peer = Annotated[
    str | None,
    typer.Option(help="`own`, `others`, or how the peer id or public key of whoever asked begins."),
]
Success = Annotated[
    Literal["all", "some", "none"] | None, typer.Option(help="How many of its answers are right.")
]
Round = Annotated[
    str | None, typer.Option(help="Of a round, or of several such as 10-20.", metavar="N|N-M")
]
Text = Annotated[
    str | None, typer.Option(help="With these words in its question or answers; case is all one.")
]
Trained = Annotated[bool, typer.Option("--trained", help="Only what was trained on.")]

_ROUNDS = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Search:
    """What was asked for; None lets all through."""

    task: str | None = None
    peer: str | None = None
    success: str | None = None
    round: str | None = None
    text: str | None = None
    trained: bool = False

    @property
    def narrows(self) -> bool:
        """Whether anything was asked for."""
        return self != Search()


def found(home: Home, search: Search) -> Iterator[StoredRollout]:
    """Newest first, read as they are asked for. Raises Mistake."""
    from swarmnode.store.rollout_rows import Wanted

    task, _, level = (search.task or "").partition(":")
    own = {"own": True, "others": False}.get(search.peer or "")
    by_name = search.peer is not None and own is None
    wanted = Wanted(
        task=task,
        level=level,
        own=own,
        publishers=_publishers(home, search.peer or "") if by_name else None,
        success=search.success or "",
        rounds=None if search.round is None else _rounds(search.round),
        trained=search.trained,
    )
    words = (search.text or "").casefold()
    return (each for each in _read(home, wanted) if not words or words in _texts(each))


def one(home: Home, number: int) -> StoredRollout:
    """The rollout with a number. Raises Mistake."""
    from swarmnode.store.rollout_rows import Wanted

    for each in _read(home, Wanted(number=number)):
        return each
    raise Mistake(
        f"no rollout {number} is kept; `swarmnode rollouts` lists those that are", Exit.CONFIG
    )


def _read(home: Home, wanted: Any) -> Iterator[StoredRollout]:
    from swarmnode.store.reading import stored_rollouts

    _there(home.database)
    with reading(home.database):
        yield from stored_rollouts(home.database, wanted)


def signature(home: Home, stored: StoredRollout) -> Signed | None:
    """The signature over a rollout, checked here and now; None without one. Raises Mistake."""
    from swarmnode.cli.rollout_values import signature_of

    with reading(home.database):
        return signature_of(home.database, stored)


def _there(database: Path) -> None:
    if not database.exists():
        raise Mistake(
            f"no rollouts are kept: there is no {database}; start with `swarmnode run`",
            Exit.NOT_RUNNING,
        )


def _publishers(home: Home, beginning: str) -> Sequence[bytes]:
    """Whose peer id or public key begins so. Raises Mistake."""
    from swarmnode.keys import peer_id_of
    from swarmnode.store.reading import rollout_publishers

    _there(home.database)
    with reading(home.database):
        known = rollout_publishers(home.database)
    matching = [
        key
        for key in known
        if peer_id_of(key).startswith(beginning) or key.hex().startswith(beginning.lower())
    ]
    if not matching:
        raise Mistake(
            f"nothing is kept of a peer whose id begins with {beginning!r}; `swarmnode peers` has "
            "what was dropped",
            Exit.CONFIG,
        )
    return matching


def _rounds(text: str) -> tuple[int, int]:
    match = _ROUNDS.fullmatch(text)
    if match is None:
        raise Mistake(f"--round {text}: write a round such as 12, or several such as 10-20")
    first = int(match[1])
    last = int(match[2] or first)
    if last < first or last >= 2**63:
        raise Mistake(f"--round {text}: write a round such as 12, or several such as 10-20")
    return first, last


def _texts(stored: StoredRollout) -> str:
    content = stored.rollout.content
    answers = (each["text"] for each in content["completions"])
    return "\n".join((content["question"], content["answer"], *answers)).casefold()
