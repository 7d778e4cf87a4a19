"""Tasks that another package brings, found by entry point.

A task is found by its name in the entry point group `swarmnode.tasks`; the entry point is called
without arguments and returns an object with `levels`, `draft` and `verify`. Names of our own tasks,
refused ones included, stay ours: nothing is looked for under them. Such a package is trusted as
much as swarmnode itself; strangers' texts still reach its verifier behind the scorer's lock alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol

from swarmnode.tasks.drafts import Draft
from swarmnode.tasks.errors import UnusableTask
from swarmnode.tasks.levels import LEVELS
from swarmnode.tasks.other_tasks import ENABLED, REFUSED
from swarmproto import ANSWER_BYTES_MAX, QUESTION_BYTES_MAX, WireError, reference_seed
from swarmproto.fields import as_name

ENTRY_POINT_GROUP = "swarmnode.tasks"
OURS = frozenset({*LEVELS, *ENABLED, *REFUSED})
KEPT_TASKS = 64
TRIED = 16
"""Questions of each level that `prove` asks, from the streams that fingerprints are made of."""
RIGHT = 0.99


class BroughtTask(Protocol):
    """A task of another package. A pure function of its arguments, the same in every process."""

    @property
    def levels(self) -> Sequence[str]:
        """Names of its levels: lower-case ASCII letters, digits, `_`, `.` and `-`."""

    def draft(self, level: str, seed: int, index: int) -> Draft | None:
        """The question at `index` (0 to 2**32 - 1) of the stream with `seed` (below 2**63).

        None where there is none to be asked at this index.
        """

    def verify(self, given: str, answer: str, metadata: Mapping[str, object]) -> float:
        """What an answer is worth in [0, 1]: 1 if it is right, by the draft's own answer.

        `given` is a stranger's text of 4 KiB at most, without spaces at its ends, never empty.
        """


def brought_names() -> Sequence[str]:
    """The names that installed packages bring."""
    return sorted(_brought())


def _brought() -> Mapping[str, EntryPoint]:
    found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    return {name: point for name, point in found.items() if name not in OURS}


def brought_task(name: str) -> BroughtTask | None:
    """The task of that name; None where no installed package brings one. Raises UnusableTask."""
    return None if name in OURS else _loaded(name)


@lru_cache(KEPT_TASKS)
def _loaded(name: str) -> BroughtTask | None:
    point = _brought().get(name)
    return None if point is None else _made(point)


def _made(point: EntryPoint) -> BroughtTask:
    where = f"the task {point.name!r} ({point.value})"
    try:
        made: BroughtTask = point.load()()
        levels = tuple(made.levels)
    except Exception as error:
        raise UnusableTask(f"{where} cannot be made: {_told(error)}") from error
    missing = [name for name in ("draft", "verify") if not callable(getattr(made, name, None))]
    if missing:
        raise UnusableTask(f"{where} has no method `{missing[0]}`")
    try:
        for name in (point.name, *levels):
            as_name(name)
    except WireError as error:
        raise UnusableTask(
            f"{where} or one of its levels has a name that can't travel: lower-case letters, "
            "digits, _, . and - alone"
        ) from error
    if not levels:
        raise UnusableTask(f"{where} has no levels")
    return made


def prove(name: str, task: BroughtTask, level: str) -> None:
    """Try some questions: two drafts must be the same, and the own answer must be right.

    Raises UnusableTask.
    """
    try:
        for index in range(TRIED):
            drafts = [task.draft(level, reference_seed(name, level), index) for _ in range(2)]
            if drafts[0] != drafts[1]:
                raise UnusableTask(f"the task {name!r} asks something else each time, at {level!r}")
            if drafts[0] is not None:
                _prove_draft(f"the task {name!r} at level {level!r}", task, drafts[0])
    except UnusableTask:
        raise
    except Exception as error:
        raise UnusableTask(f"the task {name!r} fails at level {level!r}: {_told(error)}") from error


def _prove_draft(where: str, task: BroughtTask, draft: Draft) -> None:
    sizes = len(draft.text.encode()), len(draft.answer.encode())
    if sizes[0] > QUESTION_BYTES_MAX or not 0 < sizes[1] <= ANSWER_BYTES_MAX:
        raise UnusableTask(f"{where} has a question or an answer that is empty, or over 16 KiB")
    worth = task.verify(draft.answer.strip(), draft.answer.strip(), draft.metadata)
    if not RIGHT <= worth <= 1.0:
        raise UnusableTask(f"{where} gives its own answer {draft.answer[:40]!r} {worth}, not 1")


def _told(error: Exception) -> str:
    words = str(error).strip().splitlines()
    return f"{type(error).__name__}: {words[0]}" if words else type(error).__name__
