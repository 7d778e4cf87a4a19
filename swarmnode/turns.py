"""Taking turns, so that nobody gets more for having more. Pure, with a generator passed in."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def in_turns(
    piles: Sequence[list[Item]], rng: random.Random, count: int | None = None
) -> list[Item]:
    """One from the end of each pile in random order, then the next of each; empties the piles.

    At most `count`, if it is given.
    """
    left, taken = [pile for pile in piles if pile], list[Item]()
    while left and (count is None or len(taken) < count):
        rng.shuffle(left)
        taken += [pile.pop() for pile in left[: None if count is None else count - len(taken)]]
        left = [pile for pile in left if pile]
    return taken
