"""Asking the node that runs with this home, and reading its store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.home import Home


def this_home() -> Home:
    """The home that the environment names, or the user's; it may be missing. Raises Mistake."""
    home = Home.of(os.environ)
    check_open_to_us(home.path)
    return home


def check_open_to_us(folder: Path) -> None:
    """Refuse a folder that somebody else keeps closed, and what is none. Raises Mistake."""
    try:
        # Only who may search it as well can open it by this name.
        os.scandir(f"{folder}/.").close()
    except FileNotFoundError:
        return
    except OSError as error:
        raise Mistake(
            f"{folder} cannot be read: {error.strerror}; take another (a home: SWARMNODE_HOME), or "
            "do this as the user whose it is",
            Exit.CONFIG,
        ) from error


def asked(home: Home, request: str) -> Any:
    """The running node's answer, as JSON values. Raises Mistake."""
    from swarmnode.api.status import NotRunning, SocketError, ask

    try:
        return ask(home.status_socket, request)
    except NotRunning as error:
        raise not_running(home) from error
    except SocketError as error:
        raise Mistake(str(error), Exit.FAILURE) from error


def not_running(home: Home) -> Mistake:
    """What a command says that needs a running node."""
    return Mistake(
        f"no node runs with the home {home.path}; start one with `swarmnode run`, or set "
        "SWARMNODE_HOME as for the node that you mean",
        Exit.NOT_RUNNING,
    )


@contextmanager
def reading(database: Path) -> Iterator[None]:
    """Raises Mistake in place of what a store that can't be read raises."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise Mistake(
            f"{database} cannot be read: {error}; if it is damaged, a node that starts sets it"
            " aside",
            Exit.FAILURE,
        ) from error
