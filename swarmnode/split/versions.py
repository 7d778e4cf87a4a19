"""Which number the trainer's weights go out under, and how far groups lie behind them. Pure.

A number is the count of optimizer steps, as long as nothing is lost. When the trainer goes back to
a checkpoint, its weights of then go out under a new, higher number: numbers never go back, so that
a generator takes what is newer, and peers see one policy that moves on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_OFFSET = "version_offset"
_KEPT_LINES = 64
"""More losses than what waits can have seen."""


@dataclass(frozen=True, slots=True)
class _Line:
    """Weights that followed one another without a loss: a number is their steps and an offset."""

    began: int
    """Its first number."""
    steps: int
    """The steps of then, those of the checkpoint: what it shares with the line before ends here."""

    @property
    def offset(self) -> int:
        return self.began - self.steps


def carried(saved: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a checkpoint has to keep of an earlier one, whose weights nobody numbers meanwhile."""
    return {_OFFSET: saved[_OFFSET]} if saved and _OFFSET in saved else {}


class Versions:
    """The numbers of one trainer's weights. Begins with a trainer that took no step."""

    def __init__(self, per_round: int = 1) -> None:
        """`per_round`: steps that a round takes at most."""
        self._per_round = per_round
        self._lines = [_Line(0, 0)]
        """The trainer is in the last one."""
        self.newest = 0
        """The number of the trainer's weights as they are now."""

    def restore(self, saved: Mapping[str, Any], steps: int, seen: int) -> None:
        """Go on after so many steps with what `to_values` gave, empty if there is nothing.

        `seen` is the number after the last round that was told of.
        """
        self.newest = steps + int(saved.get(_OFFSET, 0))
        if seen > self.newest:
            # A round more may have gone out after it, with weights that went back.
            self.newest = seen + self._per_round + 1
        self._lines = [_Line(self.newest, steps)]

    def to_values(self) -> dict[str, Any]:
        """What a checkpoint has to keep."""
        return {_OFFSET: self._lines[-1].offset}

    def trained(self, steps: int) -> int:
        """The number of the weights after so many optimizer steps."""
        self.newest = steps + self._lines[-1].offset
        return self.newest

    def went_back(self, steps: int) -> int:
        """The new number of the weights of a checkpoint of so many steps, to which the trainer went
        back."""
        self.newest += 1
        self._lines = [*self._lines[1 - _KEPT_LINES :], _Line(self.newest, steps)]
        return self.newest

    def lag(self, version: int) -> int:
        """Optimizer steps that lie between weights of that number and those of now.

        Of weights that are lost: the steps back to the last checkpoint that both have in common,
        and on from there. What is older than all that is known is behind by the whole difference.
        """
        place = sum(line.began <= version for line in self._lines) - 1
        if place < 0:
            return self.newest - version
        steps = version - self._lines[place].offset
        common = min([steps, *(line.steps for line in self._lines[place + 1 :])])
        now = self.newest - self._lines[-1].offset
        return (steps - common) + (now - common)
