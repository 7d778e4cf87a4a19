"""`swarmnode run`: one node on this machine, alone or in a swarm."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.loading import load
from swarmnode.cli.options import AcceptRisk, Announce, Assignments, Config, Listen, MixText, Tasks

if TYPE_CHECKING:
    from swarmnode.config.settings import Settings
    from swarmnode.home import Home
    from swarmnode.outfit import Plan
    from swarmnode.publish import Identity
    from swarmnode.swarm_files import SwarmFile


def run(
    swarm: Annotated[
        str | None,
        typer.Argument(
            metavar="[SWARM|ADDRESS]",
            help="A swarm that was joined, a swarm file, or the address of any peer.",
        ),
    ] = None,
    solo: Annotated[bool, typer.Option("--solo", help="Train alone, without a network.")] = False,
    listen: Listen = None,
    announce: Announce = None,
    public: Annotated[
        bool, typer.Option("--public", help="Offer this node to strangers; see docs/join.md.")
    ] = False,
    accept_risk: AcceptRisk = False,
    mix: MixText = None,
    task: Tasks = None,
    level: Annotated[str | None, typer.Option(help="Level of tasks that name none.")] = None,
    model: Annotated[str | None, typer.Option(help="The policy's model.")] = None,
    rounds: Annotated[
        int | None, typer.Option(help="End after so many rounds in all; without it, never.", min=1)
    ] = None,
    assignment: Assignments = None,
    config: Config = None,
) -> None:
    """Run a node: train, share, and take from others. It needs no preparation.

    Without a swarm it takes the only one that was joined, or waits in the default swarm and trains
    alone until somebody comes.
    """
    from swarmnode.cli.simulate import mix_flags, parse_mix

    if solo and swarm:
        raise Mistake("give a swarm or --solo, not both")
    flags: dict[str, object] = {
        "network.listen": listen,
        "network.announce": announce,
        "network.public": public or None,
        "tasks.names": task,
        "tasks.level": level,
        "policy.model": model,
        **(mix_flags(parse_mix(mix)) if mix else {}),
    }
    from swarmnode.cli.opening import check_openness, opened_home

    settings = load(config, assignment or [], flags)
    check_openness(settings, accept_risk=accept_risk)
    with opened_home() as (home, identity):
        from swarmnode.cli.choosing import DEFAULT_NAME, chosen_swarm, fitting, swarm_of

        if solo:
            chosen = swarm_of(settings, DEFAULT_NAME)
        else:
            chosen, settings = chosen_swarm(home, swarm, settings)
        settings = fitting(settings, chosen, own_tasks=bool(task))
        _run(settings, home, identity, chosen, solo=solo, rounds=rounds)


def _run(
    settings: Settings,
    home: Home,
    identity: Identity,
    swarm: SwarmFile,
    *,
    solo: bool,
    rounds: int | None,
) -> None:
    from swarmnode.cli.simulate import check
    from swarmnode.daemon import run as live
    from swarmnode.observe.log import start_logging
    from swarmnode.outfit import Plan
    from swarmnode.paths import cache_folder
    from swarmnode.process import ChildError
    from swarmnode.store.database import StoreError

    check(settings)
    cache = cache_folder(os.environ) / "warm-starts"
    plan = Plan(settings, home, identity, swarm, solo, dict(os.environ), cache, rounds)
    _greet(plan)
    logging = start_logging(home.log, "daemon", terminal=sys.stderr)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        live(plan)
    except (ChildError, StoreError) as error:
        raise Mistake(str(error), Exit.FAILURE) from error
    except OSError as error:
        raise Mistake(f"{error.filename or home.path}: {error.strerror}", Exit.FAILURE) from error
    finally:
        logging.close()


def _greet(plan: Plan) -> None:
    from swarmnode.keys import peer_id_of

    where = "on its own" if plan.solo else f"swarm {plan.swarm.rules.name!r}"
    sys.stdout.write(
        f"home      {plan.home.path}\n"
        f"identity  {peer_id_of(plan.identity.public_key)}\n"
        f"training  {where}: {', '.join(task for task, _ in plan.settings.tasks.pairs)}\n"
        "Another terminal shows what it does: swarmnode status. Ctrl-C ends it in order.\n"
    )
    sys.stdout.flush()
