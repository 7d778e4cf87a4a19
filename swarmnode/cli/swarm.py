"""`swarmnode swarm`: the swarms that this home knows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.loading import check_tasks, load
from swarmnode.cli.options import Tasks

swarm = typer.Typer(
    help="Make, join, leave and list swarms.", invoke_without_command=True, rich_markup_mode=None
)


@swarm.callback()
def swarms(context: typer.Context) -> None:
    """Without a command, show the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@swarm.command()
def new(
    name: Annotated[str, typer.Argument(help="What it is called.")],
    task: Tasks = None,
    level: Annotated[str | None, typer.Option(help="Level of tasks that name none.")] = None,
    bootstrap: Annotated[
        list[str] | None, typer.Option(help="Address of a peer to start from; repeatable.")
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
def leave(name: Annotated[str, typer.Argument(help="As `swarm list` shows it.")]) -> None:
    """Forget a swarm."""
    from swarmnode.cli.choosing import made_home
    from swarmnode.swarm_files import SwarmFileError, remove_swarm

    try:
        remove_swarm(made_home().swarms, name)
    except SwarmFileError as error:
        raise Mistake(str(error), Exit.CONFIG) from error
    sys.stdout.write(f"left {name}\n")


@swarm.command("list")
def show(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List the swarms that were joined."""
    from swarmnode.cli.choosing import made_home
    from swarmnode.swarm_files import SwarmFile, list_swarms

    found = list_swarms(made_home().swarms)
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
