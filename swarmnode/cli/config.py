"""`swarmnode config`: settings and where they come from, and where a node keeps what."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.groups import group_of_commands
from swarmnode.cli.options import Assignments, Config
from swarmnode.cli.running import this_home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from swarmnode.config.settings import Loaded
    from swarmnode.observe.disk import Place

config = group_of_commands("Show and check settings, and where a node keeps what.")


@config.command()
def show(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Settings or sections; all without."),
    ] = None,
    config: Config = None,
    assignments: Assignments = None,
    origin: Annotated[
        bool, typer.Option("--origin", help="Where each value comes from, beside it.")
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only what is not as by default.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, by name.")] = False,
) -> None:
    """Show the settings that a command has with this file, environment and --set, as TOML.

    `swarmnode config show > swarm.toml` is a file for --config.
    """
    from swarmnode.cli.config_text import settings_text
    from swarmnode.config.settings import nearest

    loaded = _loaded(config, assignments)
    every = list(loaded.origins())
    settings = [name for name, _, _ in every]
    known = {part for name in settings for part in (name, name.rpartition(".")[0])}
    for each in names or ():
        if not any(_is_named(name, [each]) for name in settings):
            raise Mistake(f"there is no setting or section {each!r}; {nearest(each, known)}")
    chosen = [
        (name, value, source)
        for name, value, source in every
        if _is_named(name, names or ()) and not (changed and source == "default")
    ]
    if as_json:
        plain = loaded.settings.model_dump(mode="json")
        values = {name: {"value": _at(plain, name), "origin": source} for name, _, source in chosen}
        sys.stdout.write(json.dumps(values, indent=2) + "\n")
        return
    for line in settings_text(chosen, origin=origin):
        sys.stdout.write(f"{line}\n")


def _is_named(name: str, names: Sequence[str]) -> bool:
    return not names or any(name == each or name.startswith(f"{each}.") for each in names)


def _at(tree: object, name: str) -> object:
    for step in name.split("."):
        assert isinstance(tree, dict)
        tree = tree[step]
    return tree


def _loaded(config: Path | None, assignments: Sequence[str] | None) -> Loaded:
    from swarmnode.cli.loading import load_with_origins

    return load_with_origins(config, assignments or [], {})


@config.command()
def check(config: Config = None, assignments: Assignments = None) -> None:
    """Check a settings file, and the environment, as `run` would; nothing is started."""
    from swarmnode.cli.loading import check_tasks
    from swarmnode.cli.simulate import check as check_run

    loaded = _loaded(config, assignments)
    check_tasks(loaded.settings)
    check_run(loaded.settings)
    changed = [name for name, _, source in loaded.origins() if source != "default"]
    told = f": {', '.join(changed)}" if changed else ""
    sys.stdout.write(f"good; {len(changed)} settings are not as by default{told}\n")


@config.command()
def init(
    file: Annotated[Path, typer.Argument(help="The file to write; it must not be there yet.")],
) -> None:
    """Write a settings file with every setting, its meaning and its default as comments."""
    from swarmnode.cli.config_text import commented_text

    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.writelines(f"{line}\n" for line in commented_text())
    except FileExistsError as error:
        raise Mistake(
            f"{file} is there already and is not overwritten; choose another place", Exit.CONFIG
        ) from error
    except OSError as error:
        raise Mistake(
            f"{file} cannot be written: {error.strerror}; choose another place", Exit.CONFIG
        ) from error
    sys.stdout.write(f"{file}: change it, then swarmnode run --config {file}\n")


@config.command()
def paths(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List every file and folder that a node with this home uses, with its size and its limit."""
    from swarmnode.observe.disk import places

    found = places(this_home(), os.environ, os.getuid())
    if as_json:
        values = [
            {"name": each.name, "path": str(each.path), "bytes": each.bytes,
             "about": each.about, "bound": each.bound}
            for each in found
        ]  # fmt: skip
        sys.stdout.write(json.dumps(values, indent=2) + "\n")
        return
    _show_places(found)


def _show_places(found: Sequence[Place]) -> None:
    import shutil

    from swarmnode.observe.words import size_of

    home = this_home().path
    widest = max(len(str(each.path)) for each in found)
    for each in found:
        size = size_of(each.bytes) if each.bytes else "-"
        about = each.about + (f" ({each.bound})" if each.bound else "")
        sys.stdout.write(f"{each.name:<12}{size:>9}  {each.path!s:<{widest}}  {about}\n")
    total = size_of(sum(each.bytes for each in found))
    existing = next(each for each in (home, *home.parents) if each.exists())
    free = size_of(shutil.disk_usage(existing).free)
    sys.stdout.write(f"{'together':<12}{total:>9}  {free} free where the home is\n")
