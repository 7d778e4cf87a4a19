"""The settings of a command, from its flags, a file and the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swarmnode.cli.exits import Exit, Mistake

if TYPE_CHECKING:
    from swarmnode.config.settings import Loaded, Settings


def load(
    config: Path | None,
    assignments: Sequence[str],
    flags: Mapping[str, object],
    earlier: Mapping[str, Any] | None = None,
) -> Settings:
    """Flags that were not given are None or empty; `earlier` are an earlier run's settings.

    Raises Mistake.
    """
    return load_with_origins(config, assignments, flags, earlier).settings


def load_with_origins(
    config: Path | None,
    assignments: Sequence[str],
    flags: Mapping[str, object],
    earlier: Mapping[str, Any] | None = None,
) -> Loaded:
    """The same with where each setting comes from. Raises Mistake."""
    from swarmnode.config.settings import SettingsError, load_with_origins

    given = {name: value for name, value in flags.items() if value is not None and value != []}
    try:
        return load_with_origins(
            file=config,
            environment=os.environ,
            assignments=assignments,
            flags=given,
            earlier=earlier,
        )
    except SettingsError as error:
        from_file = config is not None and str(config) in str(error)
        raise Mistake(str(error), Exit.CONFIG if from_file else Exit.USAGE) from error


def check_tasks(settings: Settings) -> None:
    """Whether every task is there, has the level, and works if it is brought. Raises Mistake."""
    from swarmnode.tasks.errors import TaskError
    from swarmnode.tasks.registry import levels_of, try_out

    for task, level in settings.tasks.pairs:
        try:
            levels = levels_of(task)
        except TaskError as error:
            raise Mistake(str(error)) from error
        if level not in levels:
            named = " or ".join(f"--task {task}:{each}" for each in levels)
            raise Mistake(f"task {task!r} has no level {level!r}; choose {named}")
        try:
            try_out(task, level)
        except TaskError as error:
            raise Mistake(str(error)) from error
