"""The training set of a round: SampleSelf(I) ∪ SampleExternal(J) (swarm sampling, Algorithm 1).

What strangers may have of it at most is not decided here (shares.py): a group that is refused is
replaced by the next that the filter picks.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from swarmnode.selection.filters import Filter, draw_uniformly
from swarmnode.types import Scored


class Bounds(Protocol):
    """What external groups may have of the training set."""

    def begin(self, own: Sequence[Scored]) -> None:
        """A round with these groups of our own."""

    def takes(self, scored: Scored) -> bool:
        """Whether an external group may be trained on; if so, it is counted."""

    def may_wait(self, scored: Scored) -> bool:
        """Whether one that was refused may be taken in a later round."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A training set."""

    own: Sequence[Scored]
    external: Sequence[Scored]
    refused: Sequence[Scored]
    """What the filter would have taken and the bounds did not, nor will: it only holds places."""


def select(
    local: Sequence[Scored],
    candidates: Sequence[Scored],
    *,
    local_count: int,
    external_count: int,
    chosen_by: Filter,
    bounds: Bounds,
    rng: random.Random,
) -> Mix:
    """Choose I local groups uniformly and at most J external ones by the filter, within `bounds`.

    Local groups are not filtered, as in the paper. Where fewer than J candidates suit filter and
    bounds the set stays smaller: a round never waits for the swarm.
    """
    own = draw_uniformly(local, local_count, rng)
    bounds.begin(own)
    external: list[Scored] = []
    refused: list[Scored] = []
    left = list(candidates)
    while left and len(external) < external_count:
        picked = chosen_by.select(left, external_count - len(external), rng)
        if not picked:
            break
        for scored in picked:
            if bounds.takes(scored):
                external.append(scored)
            elif not bounds.may_wait(scored):
                refused.append(scored)
        seen = {id(scored) for scored in picked}
        left = [scored for scored in left if id(scored) not in seen]
    return Mix(own, external, refused)
