"""Which file p2pd is, and that it is the one that was looked at when its version was pinned.

p2pd is Go code that runs with the user's rights: a damaged or exchanged one is not started. Whoever
can write into the installation can change this check as well. Imports nothing of hivemind.
"""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from typing import Final

from swarmnode.network.ports import StartFailed

KNOWN: Final = {
    "42f8f48e62583b97cdba3c31439c08029fb2b9fc506b5bdd82c46b7cc1d279d8": "Linux x86-64",
    "046f18480c785a84bdf139d7486086d379397ca106cb2f0191598da32f81447a": "Linux aarch64",
    "0404981a9c2b7cab5425ead2633d006c61c2c7ec85ac564ef69413ed470e65bd": "macOS arm64",
    "fe00f9d79e8e4e4c007144d19da10b706c84187b3fb84de170f4664c91ecda80": "macOS x86-64",
}
"""SHA-256 of hivemind_cli/p2pd in each wheel of hivemind 1.1.12."""

_AGAIN: Final = "`pip install --force-reinstall --no-deps hivemind==1.1.12`"


def find_p2pd() -> Path | None:
    """Where hivemind's wheel has it; None where it has none."""
    found = importlib.util.find_spec("hivemind")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / "hivemind_cli" / "p2pd"
        if path.is_file():
            return path
    return None


def problem_of(path: Path | None) -> str:
    """Why it is not to be started, in one line with the remedy; "" if it is the known one."""
    if path is None:
        return f"hivemind brings no p2pd for this system; install it again: {_AGAIN}"
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"p2pd can't be read: {path}: {error.strerror}; install it again: {_AGAIN}"
    if digest in KNOWN:
        return ""
    return (
        f"{path} is not the p2pd of hivemind 1.1.12 (its SHA-256 begins {digest[:16]}) and is not "
        f"started; install it again: {_AGAIN}"
    )


def checked_p2pd() -> Path:
    """The file to start. Raises StartFailed where `problem_of` finds something."""
    path = find_p2pd()
    problem = problem_of(path)
    if path is None or problem:
        raise StartFailed(problem)
    return path
