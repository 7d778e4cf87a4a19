"""`swarmnode export`: a model or rollouts, in forms that other programs read."""

from __future__ import annotations

from swarmnode.cli.export_model import export_model
from swarmnode.cli.export_rollouts import export_rollouts
from swarmnode.cli.groups import group_of_commands

export = group_of_commands("Write a model, or rollouts, for other programs.")
export.command("model")(export_model)
export.command("rollouts")(export_rollouts)
