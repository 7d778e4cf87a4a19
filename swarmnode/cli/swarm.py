"""`swarmnode swarm`: the swarms that this home knows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from swarmnode.cli.completion import swarm_names
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.groups import group_of_commands
from swarmnode.cli.loading import check_tasks, load
from swarmnode.cli.options import Tasks

if TYPE_CHECKING:
    from swarmnode.home import Home
    from swarmnode.swarm_files import SwarmFile, SwarmFileError

swarm = group_of_commands("Make, join, leave and list swarms.")


@swarm.command()
def new(
    name: Annotated[str, typer.Argument(help="What it is called.")],
    task: Tasks = None,
    level: Annotated[str | None, typer.Option(help="Level of tasks that name none.")] = None,
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Address of a peer to start from; repeatable."),
    ] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Only those who have its file take part.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write the file; else it is printed, unless it is secret."),
    ] = None,
) -> None:
    """Make a swarm, join it, and give its file, which others need to join.

    Whoever has a private swarm's file is a member of it: hand it on in secret.
    """
    from swarmnode.cli.choosing import made_home, swarm_of
    from swarmnode.files import write_atomically
    from swarmnode.swarm_files import SwarmFileError, save_swarm
    from swarmproto import generate_swarm_key

    settings = load(None, [], {"tasks.names": task, "tasks.level": level})
    check_tasks(settings)
    try:
        key = generate_swarm_key() if private else b""
        made, folder = swarm_of(settings, name, tuple(bootstrap or ()), key), made_home().swarms
        known_as = save_swarm(folder, made)
        if out is not None and private:
            write_atomically(out, made.text, secret=True)
        elif out is not None:
            out.write_text(made.text, encoding="utf-8")
    except SwarmFileError as error:
        raise Mistake(str(error)) from error
    except OSError as error:
        raise Mistake(f"{out} cannot be written: {error.strerror}", Exit.CONFIG) from error
    if private:
        file = out or folder / f"{known_as}.toml"
        sys.stderr.write(f"{file} has the swarm's key: hand it to members alone, in secret\n")
    elif out is None:
        sys.stdout.write(made.text)
    sys.stderr.write(f"joined as {known_as}; run a node in it: swarmnode run {known_as}\n")


@swarm.command()
def join(file: Annotated[Path, typer.Argument(help="A swarm file.")]) -> None:
    """Keep a swarm file in this home, so that `run` finds it."""
    from swarmnode.cli.choosing import made_home
    from swarmnode.swarm_files import SwarmFileError, read_swarm_file, save_swarm

    try:
        joined = read_swarm_file(file)
        known_as = save_swarm(made_home().swarms, joined)
    except SwarmFileError as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    if joined.private:
        sys.stderr.write(f"{file} has the swarm's key: delete it, or keep it from others\n")
    sys.stdout.write(f"joined as {known_as}; run a node in it: swarmnode run {known_as}\n")


@swarm.command()
def leave(
    name: Annotated[
        str, typer.Argument(help="As `swarm list` shows it.", autocompletion=swarm_names)
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Forget a swarm: say what is deleted and what stays, ask, and delete its file."""
    from swarmnode.cli.choosing import made_home
    from swarmnode.swarm_files import SwarmFileError, list_swarms, load_swarm, remove_swarm

    home = made_home()
    try:
        # One that can't be read can be left all the same.
        left = list_swarms(home.swarms).get(name) or load_swarm(home.swarms, name)
        sys.stderr.write(_leaving(home, home.swarms / f"{name}.toml", left))
        if not yes:
            _ask(name)
        remove_swarm(home.swarms, name)
    except SwarmFileError as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    sys.stdout.write(f"left {name}\n")


def _leaving(home: Home, file: Path, left: SwarmFile | SwarmFileError) -> str:
    """What is deleted, what stays, and what goes on, in lines."""
    from swarmnode.observe.disk import occupied
    from swarmnode.observe.words import plain, size_of
    from swarmnode.swarm_files import SwarmFile

    lines = [f"deletes  {file} ({size_of(file.stat().st_size)})"]
    if not isinstance(left, SwarmFile):
        lines.append(f"         unusable: {plain(str(left))}; a private swarm's key may be in it")
    elif left.private:
        lines.append(
            "         with the swarm's key: without another copy of the file you can't come back"
        )
    kept = size_of(occupied(home.path))
    lines.append(
        f"keeps    key, checkpoints, store (rounds, rollouts, known peers) and log: {kept}"
    )
    if isinstance(left, SwarmFile) and _runs_in(home, left):
        lines.append("A node runs in it, and stays in it until it ends.")
    return "".join(f"{line}\n" for line in lines)


def _runs_in(home: Home, left: SwarmFile) -> bool:
    from swarmnode.api.status import NotRunning, SocketError, ask

    try:
        status: Any = ask(home.status_socket, "status")
    except (NotRunning, SocketError):
        return False
    swarm = status.get("swarm") if isinstance(status, dict) else None
    return isinstance(swarm, dict) and swarm.get("id") == left.swarm_id.hex()


def _ask(name: str) -> None:
    """Raises Mistake where nobody can answer or the answer is no."""
    if not sys.stdin.isatty():
        raise Mistake(
            "swarm leave asks before it deletes, and nobody is there to answer; give --yes"
        )
    if not typer.confirm(f"Leave {name}?"):
        raise Mistake(f"{name} was not left", Exit.FAILURE)


@swarm.command("list")
def show(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List the swarms that were joined."""
    from swarmnode.cli.choosing import made_home
    from swarmnode.swarm_files import SwarmFile, SwarmFileError, list_swarms

    try:
        found = list_swarms(made_home().swarms)
    except SwarmFileError as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    if as_json:
        import json

        values = [
            {
                "name": name,
                "id": each.swarm_id.hex(),
                "private": each.private,
                "bootstrap": list(each.bootstrap),
            }
            for name, each in found.items()
            if isinstance(each, SwarmFile)
        ]
        sys.stdout.write(json.dumps(values) + "\n")
        return
    for name, each in found.items():
        if isinstance(each, SwarmFile):
            tasks = ", ".join(":".join(pair) for pair in each.rules.tasks)
            kind = "private  " if each.private else ""
            sys.stdout.write(f"{name}  {each.swarm_id.hex()[:16]}  {kind}{tasks}\n")
        else:
            sys.stdout.write(f"{name}  unusable: {each}\n")
    if not found:
        sys.stdout.write("none yet: swarmnode swarm new NAME, or swarmnode swarm join FILE\n")
