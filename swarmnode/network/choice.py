"""Which library the network process runs on: by the setting, and by what is installed.

Imports neither. Pure but for the look at what is installed, which can be passed in.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Final, Literal

Library = Literal["hivemind", "libp2p"]
Choice = Literal["auto", "hivemind", "libp2p"]

PREFERRED: Final[tuple[Library, ...]] = ("hivemind", "libp2p")


class NoLibrary(Exception):
    """What the setting asks for is not installed; the text is one line with the remedy."""


def installed(library: str) -> bool:
    """Whether a library can be imported, without importing it."""
    return importlib.util.find_spec(library) is not None


def chosen_library(choice: Choice, there: Callable[[str], bool] = installed) -> Library:
    """The library of a setting; `auto` takes hivemind where it is installed.

    Raises NoLibrary.
    """
    wanted = PREFERRED if choice == "auto" else (choice,)
    for library in wanted:
        if there(library):
            return library
    names = " or ".join(f"`pip install -c constraints.txt 'swarmnode-rl[{one}]'`" for one in wanted)
    missing = " nor ".join(wanted)
    neither = "neither " if len(wanted) > 1 else ""
    raise NoLibrary(
        f"network.transport = {choice}, but {neither}{missing} is installed; install it: {names}"
    )
