"""`swarmnode run`: one node on this machine, alone or in a swarm."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.completion import swarm_names
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.loading import load
from swarmnode.cli.options import Announce, Assignments, Config, Lan, Listen, MixText, Tasks

if TYPE_CHECKING:
    from swarmnode.config.settings import Settings
    from swarmnode.home import Home
    from swarmnode.outfit import Plan
    from swarmnode.publish import Identity
    from swarmnode.swarm_files import SwarmFile
    from swarmnode.torchrun import Place


def run(
    swarm: Annotated[
        str | None,
        typer.Argument(
            metavar="SWARM|ADDRESS",
            help="A swarm that was joined, a swarm file, or the address of any peer.",
            autocompletion=swarm_names,
        ),
    ] = None,
    solo: Annotated[bool, typer.Option("--solo", help="Train alone, without a network.")] = False,
    listen: Listen = None,
    announce: Announce = None,
    lan: Lan = False,
    public: Annotated[
        bool, typer.Option("--public", help="Offer this node to strangers; see docs/join.md.")
    ] = False,
    mix: MixText = None,
    task: Tasks = None,
    level: Annotated[str | None, typer.Option(help="Level of tasks that name none.")] = None,
    model: Annotated[str | None, typer.Option(help="The policy's model.")] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="sync: generate and train in turn; split: at once, in processes of their own."
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="End after so many rounds in all; without it, never.", min=1)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="With --solo: keep this training run in a folder of its own."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="With --solo: random seed, so that a new run can be the same.", min=0),
    ] = None,
    dashboard: Annotated[
        bool | None,
        typer.Option(
            "--dashboard/--no-dashboard", help="Serve a page to this machine's browsers, or don't."
        ),
    ] = None,
    assignment: Assignments = None,
    config: Config = None,
) -> None:
    """Run a node: train, share, and take from others. It needs no preparation.

    Without a swarm it takes the only one that was joined, or waits in the default swarm and trains
    alone until somebody comes. The same command goes on where it ended.
    """
    from swarmnode.cli.comparing import mix_flags, parse_mix

    place = _place_under_torchrun()
    if solo and swarm:
        raise Mistake("give a swarm or --solo, not both")
    if solo and lan:
        raise Mistake("give --lan or --solo, not both")
    if out and not solo:
        raise Mistake(
            "--out is for --solo; the environment variable SWARMNODE_HOME gives a node of a swarm "
            "another home"
        )
    flags: dict[str, object] = {
        "network.listen": listen,
        "network.announce": announce,
        "network.lan": lan or None,
        "network.public": public or None,
        "tasks.names": task,
        "tasks.level": level,
        "policy.model": model,
        "policy.mode": mode,
        "dashboard.enabled": dashboard,
        **(mix_flags(parse_mix(mix)) if mix else {}),
        # Nobody is there to share with.
        "rounds.share": "none" if solo else None,
    }
    if seed is not None and not solo:
        raise Mistake("--seed is for --solo; a swarm cannot be the same again")
    from swarmnode.cli.opening import check_network, opened_home
    from swarmnode.trackers.installed import missing_tracker

    settings = load(config, assignment or [], flags)
    if place is not None and settings.policy.trainer_processes > 1:
        raise Mistake(
            f"torchrun has started {place.count} processes that train; leave "
            "policy.trainer_processes at 1"
        )
    if settings.policy.mode == "split" and settings.selection.external_source == "own_past":
        raise Mistake(
            "selection.external_source = own_past replays what a round has trained on, which under "
            "policy.mode = split may still wait; set policy.mode = sync"
        )
    if problem := missing_tracker(settings.metrics.trackers):
        raise Mistake(problem, Exit.CONFIG)
    if not solo:
        check_network(settings)
    with opened_home(out) as (home, identity):
        from swarmnode.cli.choosing import DEFAULT_NAME, chosen_swarm, fitting, swarm_of

        if solo:
            chosen = swarm_of(settings, DEFAULT_NAME)
        else:
            chosen, settings = chosen_swarm(home, swarm, settings)
        settings = fitting(settings, chosen, own_tasks=bool(task))
        _run(settings, home, identity, chosen, solo=solo, rounds=rounds, seed=seed)


def _place_under_torchrun() -> Place | None:
    """Which of torchrun's processes this is: the first is the node, the others help it to train."""
    from swarmnode.process import die_with_parent
    from swarmnode.torchrun import place_of

    place = place_of(os.environ)
    if place is None:
        return None
    if place.rank > 0:
        os.execv(sys.executable, [sys.executable, "-m", "swarmnode.follower"])
    die_with_parent(signal.SIGTERM)
    return place


def _run(
    settings: Settings,
    home: Home,
    identity: Identity,
    swarm: SwarmFile,
    *,
    solo: bool,
    rounds: int | None,
    seed: int | None,
) -> None:
    from swarmnode.cli.simulate import check
    from swarmnode.cli.start_screen import StartScreen
    from swarmnode.daemon import run as live
    from swarmnode.observe.log import start_logging
    from swarmnode.outfit import Plan, seeded_identity
    from swarmnode.paths import cache_folder
    from swarmnode.process import ChildError, ChildRefused
    from swarmnode.remote_generators import DoorError
    from swarmnode.store.database import StoreError

    check(settings)
    cache = cache_folder(os.environ) / "warm-starts"
    if seed is not None:
        identity = seeded_identity(seed, identity.instance)
    plan = Plan(settings, home, identity, swarm, solo, dict(os.environ), cache, rounds, seed)
    _greet(plan)
    screen = StartScreen()
    logging = start_logging(home.log, "daemon", terminal=screen.log)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        live(plan, _say, screen.show)
    except ChildRefused as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    except DoorError as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    except (ChildError, StoreError) as error:
        raise Mistake(str(error), Exit.FAILURE) from error
    except OSError as error:
        raise Mistake(f"{error.filename or home.path}: {error.strerror}", Exit.FAILURE) from error
    finally:
        logging.close()
    if solo or rounds is not None:
        _tell_gain(plan)


def _greet(plan: Plan) -> None:
    from swarmnode.cli.opening import openness
    from swarmnode.home import Home
    from swarmnode.keys import peer_id_of

    usual = plan.home == Home.of(plan.environment)
    prefix = "" if usual else f"SWARMNODE_HOME={shlex.quote(str(plan.home.path))} "
    where = "on its own" if plan.solo else f"swarm {plan.swarm.rules.name!r}"
    identity = "" if plan.solo else f"identity  {peer_id_of(plan.identity.public_key)}\n"
    opens = "" if plan.solo else openness(plan.settings)
    opens = f"open      {opens}\n" if opens else ""
    sys.stdout.write(
        f"home      {plan.home.path}\n{identity}"
        f"training  {where}: {', '.join(task for task, _ in plan.settings.tasks.pairs)}\n"
        f"{opens}"
        f"Another terminal shows what it does: {prefix}swarmnode status. Ctrl-C ends it in order.\n"
    )
    sys.stdout.flush()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _tell_gain(plan: Plan) -> None:
    """What the run has brought so far, by the evaluations that its store holds."""
    from swarmnode.cli.gains import gain_line
    from swarmnode.reports import report_from_json
    from swarmnode.store.reading import stored_rounds

    reports = [report_from_json(each.report) for each in stored_rounds(plan.home.database)]
    sys.stdout.write(f"{gain_line(reports)}\nkept in    {plan.home.path}\n")
