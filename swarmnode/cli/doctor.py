"""`swarmnode doctor`: whether this machine can run a node, and what to do where it can't."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarmnode.cli.exits import Exit
from swarmnode.cli.loading import load
from swarmnode.cli.options import Assignments, Config
from swarmnode.cli.running import this_home

if TYPE_CHECKING:
    from swarmnode.config.settings import Settings
    from swarmnode.doctor import Check
    from swarmnode.home import Home
    from swarmnode.observe.status import StatusDocument


def doctor(
    bootstrap: Annotated[
        list[str] | None, typer.Option(help="A bootstrap peer to test as well; repeatable.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A model whose need of memory is estimated; see docs/models.md."),
    ] = None,
    net: Annotated[
        bool,
        typer.Option("--net", help="Also what the running node has open to other machines."),
    ] = False,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Only whether the node runs and is well: a health check."),
    ] = False,
    assignment: Assignments = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Check everything that a node needs; each finding says what to do.

    Exit code 1 when something failed; warnings alone leave it at 0.
    """
    from swarmnode.doctor import checks, examine, running_checks

    settings = load(config, assignment or [], {"policy.model": model} if model else {})
    home, network = this_home(), settings.network
    status, found = _running(home)
    if quick:
        return _end(found or running_checks(status), as_json=as_json)
    addresses, unreadable = _known_swarms(home)
    found += unreadable
    addresses = list(dict.fromkeys([*network.bootstrap, *(bootstrap or []), *addresses]))
    facts = examine(home, network.listen, addresses, status, transport=network.transport)
    found = [*checks(facts), *found]
    if net:
        found += _exposure(status)
    if model:
        found.append(_model(settings))
    _end(found, as_json=as_json)


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
    told = status.network.addresses if status and status.network.transport == "libp2p" else ()
    try:
        return exposure_checks(exposure_of(daemon, told) if daemon else None)
    except psutil.Error as error:
        fix = "Run it as the user whose node it is."
        return [Check("open-to-others", Result.WARNING, str(error), fix)]


def _model(settings: Settings) -> Check:
    """Whether the model can be had and fits; its weights are not read."""
    import asyncio

    from swarmnode.children import policy_child
    from swarmnode.doctor import Check, Result, model_check
    from swarmnode.observe.words import plain
    from swarmnode.outfit import preflight
    from swarmnode.process import ChildError

    host = policy_child(dict(os.environ), "policy host")
    host.start()
    try:
        needs = asyncio.run(preflight(settings, host))
    except ChildError as error:
        fix = "docs/models.md says which models can be had and what memory they take."
        return Check("model", Result.FAILED, plain(str(error)), fix)
    finally:
        host.close_now()
    return model_check(settings.policy.model, needs)


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
