"""Which number the trainer's weights go out under, and how far groups lie behind them. Pure.

A number is the count of optimizer steps, as long as nothing is lost. When the trainer goes back to
a checkpoint, its weights of then go out under a new, higher number: numbers never go back, so that
a generator takes what is newer, and peers see one policy that moves on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OFFSET = "version_offset"


class Versions:
    """The numbers of one trainer's weights. Begins with a trainer that took no step."""

    def __init__(self) -> None:
        self._offset = 0
        self.newest = 0
        """The number of the trainer's weights as they are now."""
        self._began = 0
        """The first number of the line of weights that the trainer is in."""
        self._left = 0
        """The number that the weights had of which this line began, in the line before."""

    def restore(self, saved: Mapping[str, Any], steps: int, seen: int) -> None:
        """Go on after so many steps with what `to_values` gave, empty if there is nothing.

        `seen` is the highest number that others may know.
        """
        self._offset = int(saved.get(_OFFSET, 0))
        self.newest = self._began = self._left = steps + self._offset
        if seen > self.newest:
            # One more may have gone out after it, with weights that went back.
            self.newest = seen + 1
            self.went_back(steps)

    def to_values(self) -> dict[str, Any]:
        """What a checkpoint has to keep."""
        return {_OFFSET: self._offset}

    def trained(self, steps: int) -> int:
        """The number of the weights after so many optimizer steps."""
        self.newest = steps + self._offset
        return self.newest

    def went_back(self, steps: int) -> int:
        """The new number of the weights of a checkpoint of so many steps, to which the trainer went
        back."""
        self._left = steps + self._offset
        self._offset = self.newest + 1 - steps
        self._began = self.newest = steps + self._offset
        return self.newest

    def lag(self, version: int) -> int:
        """Optimizer steps that lie between weights of that number and those of now.

        Of weights that are lost: the steps back to where the checkpoint was, and on from there. Of
        several losses only the last is known; what was sampled before two of them is long gone.
        """
        if version >= self._began:
            return self.newest - version
        return abs(version - self._left) + self.newest - self._began
