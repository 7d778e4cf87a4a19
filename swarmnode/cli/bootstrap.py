"""`swarmnode bootstrap`: a peer without a model, which others start from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from swarmnode.cli.completion import swarm_names
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.loading import load
from swarmnode.cli.options import Announce, Assignments, Config, Lan, Listen


def bootstrap(
    swarm: Annotated[
        str | None,
        typer.Argument(
            metavar="SWARM",
            help="A swarm that was joined, or a swarm file.",
            autocompletion=swarm_names,
        ),
    ] = None,
    listen: Listen = None,
    announce: Announce = None,
    lan: Lan = False,
    assignment: Assignments = None,
    config: Config = None,
) -> None:
    """Run a bootstrap peer: it trains nothing, and tells newcomers who is there.

    It prints the address that goes into a swarm file, or behind `swarmnode run`.
    """
    flags: dict[str, object] = {
        "network.listen": listen,
        "network.announce": announce,
        "network.lan": lan or None,
    }
    from swarmnode.cli.opening import check_network, opened_home, openness

    settings = load(config, assignment or [], flags)
    check_network(settings)
    if opens := openness(settings):
        sys.stderr.write(f"open: {opens}\n")
    with opened_home() as (home, identity):
        from swarmnode.api.status import SocketError
        from swarmnode.bootstrapping import BootstrapError, serve
        from swarmnode.cli.choosing import chosen_swarm
        from swarmnode.observe.log import start_logging

        chosen, settings = chosen_swarm(home, swarm, settings)
        logging = start_logging(home.log, "bootstrap", terminal=sys.stderr)
        try:
            serve(settings.network, home, identity, chosen, say=_say)
        except (SocketError, BootstrapError) as error:
            raise Mistake(str(error), Exit.FAILURE) from error
        finally:
            logging.close()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
