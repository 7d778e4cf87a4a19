"""Questions out of reasoning-gym, made exact: the same in every process, thread state and locale.

Knows no swarm, key or held-out rule. reasoning-gym seeds item i of a dataset with seed + i, so one
dataset with seed 0 serves every stream, at the position seed + i; seeds are hashes of 63 bits, so
that streams don't run into each other. reasoning-gym is imported when the first question is made
(it takes about a second), so that other processes may read names and levels.
"""

from __future__ import annotations

import decimal
import io
import locale
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from swarmnode.tasks.drafts import Draft

Entry = Mapping[str, Any]
"""reasoning-gym's item: question, answer and metadata."""
Present = Callable[[Entry], Draft | None]
"""Turns an entry into a draft; None refuses the entry."""

GENERATION_ERRORS = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""What reasoning-gym raises for the rare item that it fails to make; such an index has no
question, for everybody alike."""


@dataclass(frozen=True)
class ReasoningGymSource:
    """The source of a level whose parameters we fix."""

    task: str
    present: Present
    variants: Sequence[Mapping[str, object]]
    """reasoning-gym's parameters; index i is asked of variant i modulo their number."""
    attempts: int = 1
    """Items tried for one index until `present` takes one; their positions belong to the index."""

    @cached_property
    def _datasets(self) -> tuple[Any, ...]:
        # `size` bounds nothing in the nine tasks' __getitem__.
        return tuple(
            create_dataset(self.task, seed=0, **parameters) for parameters in self.variants
        )

    def draft(self, seed: int, index: int) -> Draft | None:
        """See DraftSource; None when reasoning-gym fails or every attempt is refused."""
        dataset = self._datasets[index % len(self._datasets)]
        first = seed + index * self.attempts
        with plain_surroundings():
            for position in range(first, first + self.attempts):
                try:
                    draft = self.present(dataset[position])
                except GENERATION_ERRORS:
                    continue
                if draft is not None:
                    return draft
        return None


def create_dataset(task: str, seed: int, **parameters: object) -> Any:
    """A reasoning-gym dataset; imports reasoning-gym."""
    import reasoning_gym

    return reasoning_gym.create_dataset(task, seed=seed, **parameters)


@contextmanager
def plain_surroundings() -> Iterator[None]:
    """Shield generation from the process's state, and the process from generation.

    bf's compiler prints to stdout, decimal_arithmetic sets the precision of the thread's decimal
    context and relies on its rounding, calendar_arithmetic names days by the locale LC_TIME.
    """
    time_locale = locale.setlocale(locale.LC_TIME)
    context = decimal.Context(
        prec=28,
        rounding=decimal.ROUND_HALF_EVEN,
        traps=[decimal.DivisionByZero, decimal.InvalidOperation, decimal.Overflow],
    )
    if time_locale != "C":
        locale.setlocale(locale.LC_TIME, "C")
    try:
        with redirect_stdout(io.StringIO()), decimal.localcontext(context):
            yield
    finally:
        if time_locale != "C":
            locale.setlocale(locale.LC_TIME, time_locale)
