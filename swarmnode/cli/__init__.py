"""The command line: arguments and exit codes. Rooms with weight are imported by the command."""

from __future__ import annotations

import sys

import typer

from swarmnode import __version__
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.simulate import simulate

app = typer.Typer(
    help="Train a language model together with strangers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(simulate)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"swarmnode {__version__}")
        raise typer.Exit


@app.callback()
def _swarmnode(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Train a language model together with strangers."""


def main() -> None:
    """Run the command line; the entry point of the program."""
    try:
        app()
    except Mistake as mistake:
        sys.stderr.write(f"swarmnode: {mistake}\n")
        sys.exit(mistake.code)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
