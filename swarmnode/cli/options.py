"""The options that several commands have, worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Listen = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ADDRESS", help="Address to listen on, such as /ip4/0.0.0.0/tcp/4001; repeatable."
    ),
]
Announce = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="Address that others are told to dial; repeatable."),
]
Lan = Annotated[
    bool,
    typer.Option("--lan", help="Find others on the local network, and listen there; docs/join.md."),
]
MixText = Annotated[
    str | None,
    typer.Option(metavar="I/J", help="Local and external groups a round trains on, such as 4/4."),
]
Tasks = Annotated[
    list[str] | None, typer.Option(metavar="TASK", help="A task, or task:level; repeatable.")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any setting: section.name=value; repeatable."
    ),
]
Config = Annotated[
    Path | None, typer.Option(metavar="FILE.toml", help="A TOML file with settings.")
]
