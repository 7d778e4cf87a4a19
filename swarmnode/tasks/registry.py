"""From a task's and a level's name to the source of its questions.

Knows which names exist and which are refused; makes no question itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from swarmnode.tasks.brought import BroughtTask, brought_names, brought_task, prove
from swarmnode.tasks.drafts import Draft, DraftSource
from swarmnode.tasks.errors import RefusedTask, UnknownTask
from swarmnode.tasks.levels import LEVELS
from swarmnode.tasks.native import NativeSource
from swarmnode.tasks.other_tasks import DEFAULT, ENABLED, REFUSED

NEAR = 3
"""Names at most that are offered in place of an unknown one."""


def levels_of(task: str) -> Sequence[str]:
    """The names of the task's levels.

    Raises UnknownTask, RefusedTask or UnusableTask, whose text is one line with the remedy.
    """
    if task in LEVELS:
        return tuple(LEVELS[task])
    if task in REFUSED:
        raise RefusedTask(f"task {task!r} is refused: {REFUSED[task]}; choose another task")
    if task in ENABLED:
        return (DEFAULT,)
    if (brought := brought_task(task)) is not None:
        return tuple(brought.levels)
    names = sorted({*LEVELS, *ENABLED, *brought_names()})
    close = " or ".join(map(repr, get_close_matches(task, names, n=NEAR)))
    hint = f"did you mean {close}?" if close else f"choose one of {', '.join(LEVELS)}"
    raise UnknownTask(f"unknown task {task!r}; {hint}")


def check(task: str, level: str) -> None:
    """Raise UnknownTask, RefusedTask or UnusableTask unless the task can be had at the level."""
    levels = levels_of(task)
    if level not in levels:
        raise UnknownTask(f"task {task!r} has no level {level!r}; choose {' or '.join(levels)}")


def source_of(task: str, level: str) -> DraftSource:
    """The source of a level's questions.

    Raises UnknownTask, RefusedTask or UnusableTask.
    """
    check(task, level)
    if task in LEVELS:
        return LEVELS[task][level].source
    brought = brought_task(task)
    return NativeSource(task) if brought is None else BroughtSource(brought, level)


@dataclass(frozen=True, slots=True)
class BroughtSource:
    """The source of a level that another package brings."""

    task: BroughtTask
    level: str

    def draft(self, seed: int, index: int) -> Draft | None:
        """See DraftSource."""
        return self.task.draft(self.level, seed, index)


def try_out(task: str, level: str) -> None:
    """Ask some questions of a level that another package brings; ours are tested elsewhere.

    Raises UnusableTask.
    """
    if (brought := brought_task(task)) is not None:
        prove(task, brought, level)
