"""`swarmnode export`: a model or rollouts, in forms that other programs read."""

from __future__ import annotations

import typer

from swarmnode.cli.export_model import export_model
from swarmnode.cli.export_rollouts import export_rollouts
from swarmnode.cli.groups import LightGroup

export = typer.Typer(
    cls=LightGroup,
    add_completion=False,
    help="Write a model, or rollouts, for other programs.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
export.command("model")(export_model)
export.command("rollouts")(export_rollouts)


@export.callback()
def exports(context: typer.Context) -> None:
    """Without a command, show the help."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
