"""`swarmnode doctor`: whether this machine can run a node, and what to do where it can't."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.loading import load
from swarmnode.cli.options import Assignments, Config
from swarmnode.cli.running import this_home

if TYPE_CHECKING:
    from swarmnode.config.settings import Settings
    from swarmnode.doctor import Check
    from swarmnode.home import Home
    from swarmnode.observe.status import StatusDocument
    from swarmnode.process import Child


def doctor(
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="A bootstrap peer to test as well; repeatable."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="A model whose need of memory is estimated; see docs/models.md."
        ),
    ] = None,
    net: Annotated[
        bool,
        typer.Option("--net", help="Also what the running node has open to other machines."),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Only whether the node runs and is well: a health check."),
    ] = False,
    train: Annotated[
        bool,
        typer.Option(
            "--train/--no-train",
            help="Load a small model and take a training step with it; not beside a running node.",
        ),
    ] = True,
    load_model: Annotated[
        bool,
        typer.Option("--load", help="Take that step with --model itself, which may be downloaded."),
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.tar.gz",
            help="Also write findings, settings, status and logs for others, without secrets.",
        ),
    ] = None,
    assignment: Assignments = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Check everything that a node needs; each finding says what to do.

    Exit code 1 when something failed; warnings alone leave it at 0.
    """
    from swarmnode.doctor import running_checks

    if load_model and not model:
        raise Mistake("--load is for --model: say which model is to be loaded")
    settings = load(config, assignment or [], {"policy.model": model} if model else {})
    home = this_home()
    status, found = _running(home)
    if quick:
        found = found or running_checks(status, home.path)
    else:
        found += _everything(
            settings, home, status, bootstrap or (), net=net, model=bool(model),
            training=load_model or (train and status is None), load_model=load_model,
        )  # fmt: skip
    if bundle is not None:
        _write(bundle, home, settings, found, status)
    _end(found, as_json=as_json)


def _everything(
    settings: Settings,
    home: Home,
    status: StatusDocument | None,
    bootstrap: Sequence[str],
    *,
    net: bool,
    model: bool,
    training: bool,
    load_model: bool,
) -> list[Check]:
    """All checks, those that take time at once."""
    from concurrent.futures import ThreadPoolExecutor

    from swarmnode.doctor import checks, examine

    network = settings.network
    addresses, found = _known_swarms(home)
    addresses = list(dict.fromkeys([*network.bootstrap, *bootstrap, *addresses]))
    with ThreadPoolExecutor(thread_name_prefix="doctor") as pool:
        facts = pool.submit(
            examine, home, network.listen, addresses, status, transport=network.transport
        )
        exposed = pool.submit(_exposure, status) if net else None
        # Here: a child ends with the thread that has started it.
        tried = _tried(settings, model=model, training=training, load_model=load_model)
        found = [*checks(facts.result()), *_trackers(settings), *found]
        return found + (exposed.result() if exposed else []) + tried


def _trackers(settings: Settings) -> list[Check]:
    from swarmnode.doctor import Check, Result
    from swarmnode.trackers.installed import missing_tracker

    if problem := missing_tracker(settings.metrics.trackers):
        found, _, fix = problem.partition("; ")
        return [Check("trackers", Result.FAILED, found, fix)]
    return []


def _write(
    file: Path,
    home: Home,
    settings: Settings,
    found: Sequence[Check],
    status: StatusDocument | None,
) -> None:
    from swarmnode.doctor import write_bundle

    told = None if status is None else status.as_json()
    try:
        write_bundle(file, home, settings, found, told, os.environ)
    except OSError as error:
        raise Mistake(
            f"{file} cannot be written: {error.strerror}; choose another place, or another name",
            Exit.CONFIG,
        ) from error
    sys.stderr.write(
        f"{file} has findings, settings, status and logs, without keys, secrets, addresses and "
        "names of users; look into it before you send it\n"
    )


def _end(found: Sequence[Check], *, as_json: bool) -> None:
    from swarmnode.doctor import healthy

    if as_json:
        sys.stdout.write(json.dumps(_values(found), indent=2) + "\n")
    else:
        _show(found)
    if not healthy(found):
        raise typer.Exit(Exit.FAILURE)


def _running(home: Home) -> tuple[StatusDocument | None, list[Check]]:
    """The running node's document, and what is wrong with getting it."""
    from swarmnode.api.status import NotRunning, SocketError, ask
    from swarmnode.doctor import Check, Result
    from swarmnode.observe.status import StatusDocument, StatusError
    from swarmnode.observe.words import plain

    try:
        return StatusDocument.from_json(ask(home.status_socket, "status")), []
    except NotRunning:
        return None, []
    except (SocketError, StatusError) as error:
        fix = "If it stays so, end the node and start it again."
        return None, [Check("status-socket", Result.FAILED, plain(str(error)), fix)]


def _exposure(status: StatusDocument | None) -> list[Check]:
    """What the node's processes have open, by the system's own word."""
    import psutil

    from swarmnode.doctor import Check, Result, exposure_checks, exposure_of

    ids = {each.name: each.process_id for each in status.processes} if status else {}
    daemon = ids.get("daemon")
    network = status.network if status and status.network.transport == "libp2p" else None
    told = (network.addresses, network.asked_for) if network else ()
    try:
        return exposure_checks(exposure_of(daemon, *told) if daemon else None)
    except psutil.Error as error:
        fix = "Run it as the user whose node it is."
        return [Check("open-to-others", Result.WARNING, str(error), fix)]


def _tried(settings: Settings, *, model: bool, training: bool, load_model: bool) -> list[Check]:
    """What a policy host says of the model, and of a step; it is started where it has to be."""
    import asyncio

    from swarmnode.children import policy_child
    from swarmnode.doctor import Result, small, training_checks

    found: list[Check] = []
    if not model and not training:
        return found
    host = policy_child(dict(os.environ), "policy host", settings.policy.host_threads)
    host.start()
    try:
        if model:
            found.append(asyncio.run(_model(settings, host)))
        fits = all(each.result is not Result.FAILED for each in found)
        if training and fits:
            chosen = settings if load_model else small(settings)
            found += asyncio.run(training_checks(chosen, host))
    finally:
        host.close_now()
    return found


async def _model(settings: Settings, host: Child) -> Check:
    """Whether the model can be had and fits; its weights are not read."""
    from swarmnode.doctor import Check, Result, model_check
    from swarmnode.observe.words import plain
    from swarmnode.outfit import preflight
    from swarmnode.policy.names import UnknownModel
    from swarmnode.process import ChildError

    try:
        return model_check(settings.policy.model, await preflight(settings, host))
    except (ChildError, UnknownModel) as error:
        fix = "docs/models.md says which models can be had and what memory they take."
        return Check("model", Result.FAILED, plain(str(error)), fix)


def _known_swarms(home: Home) -> tuple[list[str], list[Check]]:
    """Bootstrap addresses of the home's swarm files, and the files that cannot be read."""
    from swarmnode.doctor import Check, Result
    from swarmnode.observe.words import plain
    from swarmnode.swarm_files import SwarmFileError, read_swarm_file

    addresses: list[str] = []
    unreadable = []
    for path in sorted(home.swarms.glob("*.toml")):
        try:
            addresses += read_swarm_file(path).bootstrap
        except SwarmFileError as error:
            fix = "Get the file again, or remove the swarm with `swarmnode swarm leave`."
            unreadable.append(Check("swarm-file", Result.FAILED, plain(str(error)), fix))
    return addresses, unreadable


def _values(found: Sequence[Check]) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "result": each.result.value, "found": each.found, "fix": each.fix}
        for each in found
    ]


def _show(found: Sequence[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from swarmnode.doctor import Result
    from swarmnode.observe.words import counted, plain

    colours = {Result.OK: "green", Result.WARNING: "yellow", Result.FAILED: "bold red"}
    table = Table.grid(padding=(0, 2))
    for each in found:
        text = Text(plain(each.found))
        if each.fix:
            text.append(f"\n{plain(each.fix)}", style="dim")
        result = Text(each.result.value, style=colours[each.result])
        table.add_row(result, Text(plain(each.name)), text)
    console = Console(file=sys.stdout, highlight=False)
    console.print(table)
    counts = {result: sum(each.result is result for each in found) for result in Result}
    console.print(
        f"\n{counted(counts[Result.FAILED], 'failure')}, "
        f"{counted(counts[Result.WARNING], 'warning')}"
    )
