"""The command line: arguments and exit codes. Rooms with weight are imported by the command."""

from __future__ import annotations

import sys
from typing import NoReturn

import typer

from swarmnode import __version__
from swarmnode.cli.bootstrap import bootstrap
from swarmnode.cli.compare import compare
from swarmnode.cli.config import config
from swarmnode.cli.doctor import doctor
from swarmnode.cli.eval import evaluate
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.export import export
from swarmnode.cli.generate import generate
from swarmnode.cli.key import key
from swarmnode.cli.logs import logs
from swarmnode.cli.peers import peers
from swarmnode.cli.pretrain import pretrain
from swarmnode.cli.push import push
from swarmnode.cli.reward_model import reward_model
from swarmnode.cli.rollouts import rollouts
from swarmnode.cli.run import run
from swarmnode.cli.simulate import simulate
from swarmnode.cli.status import status
from swarmnode.cli.swarm import swarm

app = typer.Typer(
    help="Train a language model together with strangers.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (
    *(simulate, run, generate, bootstrap, status, peers, rollouts, doctor, logs, push),
    *(pretrain, compare),
):
    app.command()(command)
app.command("eval")(evaluate)
app.add_typer(swarm, name="swarm")
app.add_typer(key, name="key")
app.add_typer(export, name="export")
app.add_typer(config, name="config")
app.add_typer(reward_model, name="reward-model")


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
    """Run the command line; the entry point of the program. Without arguments it shows the help."""
    try:
        # Not standalone: the parser's mistakes come here too, and get one line like all others.
        code = app(args=sys.argv[1:] or ["--help"], standalone_mode=False)
    except Mistake as mistake:
        _end(str(mistake), mistake.code)
    except typer.TyperException as error:
        _end(f"{' '.join(error.format_message().split())} (see --help)", Exit.USAGE)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    sys.exit(code)


def _end(line: str, code: Exit) -> NoReturn:
    from swarmnode.observe.words import plain

    # What a child or a peer said may stand in it.
    sys.stderr.write(f"swarmnode: {plain(line)}\n")
    sys.exit(code)
