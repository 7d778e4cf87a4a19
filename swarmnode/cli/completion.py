"""`swarmnode completion`: what makes a shell complete this program's lines, and what can follow."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import typer


def completion(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(help="The shell: bash, zsh or fish.")
    ],
) -> None:
    """Print what makes a shell complete this program's lines.

    docs/install.md has the line for each shell. It changes no file.
    """
    from typer._completion_shared import get_completion_script

    from swarmnode.cli import COMPLETION_VARIABLE, PROGRAM

    script = get_completion_script(prog_name=PROGRAM, complete_var=COMPLETION_VARIABLE, shell=shell)
    sys.stdout.write(f"{script}\n")


def prepare() -> None:
    """Let Typer know the shells, which it does by itself only where it adds its own options."""
    from typer._completion_classes import completion_init

    completion_init()


def swarm_names(incomplete: str) -> Sequence[str]:
    """The swarms of this home whose name begins so."""
    from swarmnode.home import Home

    return [
        path.stem
        for path in sorted(Home.of(os.environ).swarms.glob("[!.]*.toml"))
        if path.stem.startswith(incomplete)
    ]
