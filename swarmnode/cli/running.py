"""Asking the node that runs with this home."""

from __future__ import annotations

import os
from typing import Any

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.home import Home


def this_home() -> Home:
    """The home that the environment names, or the user's."""
    return Home.of(os.environ)


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
        f"no node runs with the home {home.path}; start one with `swarmnode run`", Exit.NOT_RUNNING
    )
