"""Which checkpoint a command means: that of this home, of another home, or one that lies alone.

Only reads; a node that runs with the home goes on as if nobody had looked.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.running import this_home

if TYPE_CHECKING:
    from swarmnode.home import Home
    from swarmnode.origin import Origin
    from swarmnode.policy.described import Description

Place = Annotated[
    Path | None,
    typer.Argument(
        metavar="FOLDER",
        help="A home, the --out of a training run, or a checkpoint; without it, your home.",
    ),
]
Step = Annotated[
    int | None,
    typer.Option("--checkpoint", help="The checkpoint step-N instead of the newest.", min=0),
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A sound checkpoint."""

    path: Path
    home: Home | None
    """That it lies in, if it does."""
    told: Description
    origin: Origin


def chosen_checkpoint(place: Path | None, step: int | None) -> Chosen:
    """The checkpoint that was meant. Raises Mistake."""
    from swarmnode.home import Home
    from swarmnode.origin import origin_of
    from swarmnode.policy.checkpoint import CheckpointError
    from swarmnode.policy.described import describe

    home = this_home() if place is None else Home(place.absolute())
    try:
        path = _path(home, step)
        told = describe(path)
    except CheckpointError as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    around = Home(path.parent.parent)
    inside = around if path.parent == around.checkpoints and around.database.exists() else None
    return Chosen(path, inside, told, origin_of(told.extra))


def _path(home: Home, step: int | None) -> Path:
    """Raises CheckpointError and Mistake."""
    from swarmnode.policy.checkpoint import MANIFEST, CheckpointError, fault_of, sound_checkpoint

    if not home.path.is_dir():
        raise Mistake(f"there is no folder {home.path}; `swarmnode run` makes a home", Exit.CONFIG)
    if not (home.path / MANIFEST).exists():
        return sound_checkpoint(home.checkpoints, step)
    if step is not None:
        raise Mistake(f"{home.path} is a checkpoint itself; leave --checkpoint out")
    try:
        fault = fault_of(home.path)
    except OSError as error:
        fault = f"{error.filename}: {error.strerror}"
    if fault:
        raise CheckpointError(f"{home.path} is damaged: {fault}; take another one")
    return home.path
