"""`swarmnode key`: the identity that a home publishes with."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.groups import group_of_commands
from swarmnode.home import Home, HomeError
from swarmnode.keys import (
    KeyFileError,
    load_or_create_key,
    peer_id_of,
    read_key,
    replace_key,
    write_key,
)

key = group_of_commands("Show, copy or change the identity that this home publishes with.")


@key.command()
def show(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show what others know this node by; the first call draws a key."""
    with _home() as home:
        public = _public_key(load_or_create_key(home.key))
        shown = {
            "home": str(home.path),
            "public_key": public.hex(),
            "peer_id": peer_id_of(public),
            "instance": home.instance().hex(),
        }
    if as_json:
        import json

        sys.stdout.write(json.dumps(shown) + "\n")
        return
    for name, value in shown.items():
        sys.stdout.write(f"{name.replace('_', ' '):<10}  {value}\n")


@key.command()
def export(
    file: Annotated[Path, typer.Argument(help="A file that does not exist yet.")],
) -> None:
    """Copy the private key to a new file that you alone may open (0600)."""
    with _home() as home:
        write_key(file, read_key(home.key))
    sys.stdout.write(f"the private key is in {file}: whoever has it is you\n")


@key.command("import")
def take(
    file: Annotated[Path, typer.Argument(help="A file that `key export` has written.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the home's present key aside.")
    ] = False,
) -> None:
    """Take over a private key; run one node with it at a time."""
    with _home() as home, home.lock():
        private = read_key(file)
        if os.path.lexists(home.key) and not replace:
            raise Mistake(
                f"{home.key} holds a key already, which is not overwritten; give --replace to put "
                "it aside, or take another home",
                Exit.CONFIG,
            )
        _tell_change(replace_key(home.key, private, time.time()), private)


@key.command()
def rotate() -> None:
    """Become somebody new: draw another key and put the present one aside."""
    from swarmproto import generate_private_key

    with _home() as home, home.lock():
        private = generate_private_key()
        _tell_change(replace_key(home.key, private, time.time()), private)


def _tell_change(aside: Path | None, private: bytes) -> None:
    if aside is not None:
        sys.stdout.write(f"the former key is kept in {aside}\n")
    sys.stdout.write(f"this node is now {peer_id_of(_public_key(private))}\n")


def _public_key(private: bytes) -> bytes:
    from swarmproto import public_key_of

    return public_key_of(private)


@contextmanager
def _home() -> Iterator[Home]:
    """The home, made; what cannot be done there becomes a user's mistake."""
    home = Home.of(os.environ)
    try:
        home.make()
        yield home
    except (HomeError, KeyFileError) as error:
        raise Mistake(str(error), Exit.CONFIG) from error
