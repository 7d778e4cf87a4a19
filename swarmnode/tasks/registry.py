"""From a task's and a level's name to the source of its questions.

Knows which names exist and which are refused; makes no question itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from swarmnode.tasks.drafts import DraftSource
from swarmnode.tasks.errors import RefusedTask, UnknownTask
from swarmnode.tasks.levels import LEVELS
from swarmnode.tasks.native import NativeSource
from swarmnode.tasks.other_tasks import DEFAULT, ENABLED, REFUSED

NEAR = 3
"""Names at most that are offered in place of an unknown one."""


def levels_of(task: str) -> Sequence[str]:
    """The names of the task's levels.

    Raises UnknownTask or RefusedTask, whose text is one line with the remedy.
    """
    if task in LEVELS:
        return tuple(LEVELS[task])
    if task in REFUSED:
        raise RefusedTask(f"task {task!r} is refused: {REFUSED[task]}; choose another task")
    if task in ENABLED:
        return (DEFAULT,)
    names = sorted({*LEVELS, *ENABLED})
    close = " or ".join(map(repr, get_close_matches(task, names, n=NEAR)))
    hint = f"did you mean {close}?" if close else f"choose one of {', '.join(LEVELS)}"
    raise UnknownTask(f"unknown task {task!r}; {hint}")


def check(task: str, level: str) -> None:
    """Raise UnknownTask or RefusedTask unless the task is enabled and has the level."""
    levels = levels_of(task)
    if level not in levels:
        raise UnknownTask(f"task {task!r} has no level {level!r}; choose {' or '.join(levels)}")


def source_of(task: str, level: str) -> DraftSource:
    """The source of a level's questions.

    Raises UnknownTask or RefusedTask.
    """
    check(task, level)
    return LEVELS[task][level].source if task in LEVELS else NativeSource(task)
