"""The command line: arguments and exit codes. A command is loaded when it is typed."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import ClassVar, NoReturn

import typer

from swarmnode import __version__
from swarmnode.cli.exits import Exit, Mistake
from swarmnode.cli.groups import Entry, LazyGroup

PROGRAM = "swarmnode"
COMPLETION_VARIABLE = "_SWARMNODE_COMPLETE"
"""What the shell's script sets where it asks how a line may go on."""


def _entry(place: str, summary: str) -> Entry:
    return Entry(f"swarmnode.cli.{place}", summary)


class _Commands(LazyGroup):
    ENTRIES: ClassVar[Mapping[str, Entry]] = {
        "run": _entry(
            "run:run", "Run a node: train, share, and take from others. It needs no preparation."
        ),
        "status": _entry("status:status", "Show what the node that runs with this home is doing."),
        "peers": _entry(
            "peers:peers",
            "List the peers that the running node knows: traffic, what was dropped and why, mutes.",
        ),
        "rollouts": _entry(
            "rollouts:rollouts",
            "Browse the rollouts that are kept: questions, answers, scores, and what became of "
            "them.",
        ),
        "logs": _entry("logs:logs", "Show the log of the node with this home, running or not."),
        "doctor": _entry(
            "doctor:doctor", "Check everything that a node needs; each finding says what to do."
        ),
        "swarm": _entry("swarm:swarm", "Make, join, leave and list swarms."),
        "key": _entry(
            "key:key", "Show, copy or change the identity that this home publishes with."
        ),
        "config": _entry("config:config", "Show and check settings, and where a node keeps what."),
        "export": _entry("export:export", "Write a model, or rollouts, for other programs."),
        "push": _entry(
            "push:push",
            "Upload an exported model to the Hugging Face hub, private unless you say otherwise.",
        ),
        "simulate": _entry(
            "simulate:simulate", "Run a swarm of nodes on this machine and write a report."
        ),
        "eval": _entry(
            "eval:evaluate",
            "Let a policy answer held-out questions, which nobody ever trains on.",
        ),
        "compare": _entry(
            "compare:compare",
            "Let two policies answer the same held-out questions, which nobody ever trains on.",
        ),
        "pretrain": _entry(
            "pretrain:pretrain", "Train a small language model on your texts and write a report."
        ),
        "reward-model": _entry("reward_model:reward_model", "Train a model that judges answers."),
        "bootstrap": _entry(
            "bootstrap:bootstrap",
            "Run a bootstrap peer: it trains nothing, and tells newcomers who is there.",
        ),
        "generate": _entry(
            "generate:generate",
            "Generate for a node that trains elsewhere, until Ctrl-C (docs/scaling.md).",
        ),
        "completion": _entry(
            "completion:completion", "Print what makes a shell complete this program's lines."
        ),
    }


app = typer.Typer(
    cls=_Commands,
    help="Train a language model together with strangers.\n\n"
    "A node keeps what is its own in its home: the folder that SWARMNODE_HOME names, or else one "
    "of the user's, as `swarmnode config paths` lists it.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


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
    if COMPLETION_VARIABLE in os.environ:
        from swarmnode.cli.completion import prepare

        prepare()
    try:
        # Not standalone: the parser's mistakes come here too, and get one line like all others.
        code = app(args=sys.argv[1:] or ["--help"], prog_name=PROGRAM, standalone_mode=False)
    except Mistake as mistake:
        _end(str(mistake), mistake.code)
    except typer.TyperException as error:
        told = " ".join(error.format_message().split()).replace(": Value error, ", ": ")
        _end(f"{told} (see --help)", Exit.USAGE)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    sys.exit(code)


def _end(line: str, code: Exit) -> NoReturn:
    from swarmnode.observe.words import plain

    # What a child or a peer said may stand in it.
    sys.stderr.write(f"swarmnode: {plain(line)}\n")
    sys.exit(code)
