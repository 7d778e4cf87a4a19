"""What the long-running commands share: the home with its locks, the identity, and openness."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.home import Home, HomeError, lock_identity
from swarmnode.keys import KeyFileError, load_or_create_key
from swarmnode.paths import locks_folder
from swarmproto import public_key_of

if TYPE_CHECKING:
    from swarmnode.config.settings import Settings
    from swarmnode.publish import Identity


def check_network(settings: Settings) -> None:
    """Refuse, before all else, a library that isn't there, a p2pd that is not the known one, and
    what nobody can listen on.

    Raises Mistake.
    """
    from swarmnode.network.choice import NoLibrary, chosen_library
    from swarmnode.network.p2pd_binary import find_p2pd, problem_of
    from swarmnode.network.ports import no_address_in

    try:
        library = chosen_library(settings.network.transport)
    except NoLibrary as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    if library == "hivemind" and (problem := problem_of(find_p2pd())):
        raise Mistake(problem, Exit.CONFIG)
    if problem := no_address_in(settings.network.listen):
        raise Mistake(problem)


@contextmanager
def opened_home(folder: Path | None = None) -> Iterator[tuple[Home, Identity]]:
    """The home, locked for this process, and the identity in it; made where they are missing.

    It is `folder` if one is given.
    """
    from swarmnode.publish import Identity

    with ExitStack() as stack:
        try:
            home = Home.of(os.environ) if folder is None else Home(folder.absolute())
            home.make()
            stack.enter_context(home.lock())
            private = load_or_create_key(home.key)
            public = public_key_of(private)
            folder = locks_folder(os.getuid())
            stack.enter_context(lock_identity(public, home.path, folder))
            identity = Identity(private, public, home.instance())
        except (HomeError, KeyFileError) as error:
            raise Mistake(str(error), Exit.CONFIG) from error
        yield home, identity


def openness(settings: Settings) -> str:
    """What the settings open beyond this machine, in one line to be shown; "" for nothing."""
    network = settings.network
    opens = [f"listening on {address}" for address in network.open_addresses]
    opens += ["local networks, where it says that it is there"] if network.lan else []
    opens += ["offering itself to strangers"] if network.public else []
    opens += ["relaying strangers' connections"] if network.relay else []
    return f"{', '.join(opens)}; docs/security.md says what holds" if opens else ""
