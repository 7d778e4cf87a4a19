"""The training set of a round: SampleSelf(I) ∪ SampleExternal(J) (swarm sampling, Algorithm 1).

What strangers may have of it at most is not decided here (shares.py): a group that is refused is
replaced by the next that the filter picks.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from swarmnode.selection.filters import Filter, draw_uniformly
from swarmnode.selection.shares import Account, Kind, sources
from swarmnode.types import Scored

Refusal = Kind | Literal["too_long"]
"""Whose share is used up, or a length beyond our own limit."""


class Bounds(Protocol):
    """What external groups may have of the training set."""

    def begin(self, own: Sequence[Scored]) -> None:
        """A round with these groups of our own."""

    def takes(self, scored: Scored) -> Refusal | None:
        """None if an external group may be trained on, which counts it; else why not."""


@dataclass(frozen=True, slots=True)
class Mix:
    """A training set."""

    own: Sequence[Scored]
    external: Sequence[Scored]
    refused: Sequence[Scored]
    """What leaves the pool without having been trained on: too long, or of a peer or prefix whose
    share is used up, where it would hold the places of others."""


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
        spent: set[Account] = set()
        for scored in picked:
            refusal = bounds.takes(scored)
            if refusal == "external":
                return Mix(own, external, refused)
            if refusal is None:
                external.append(scored)
            else:
                refused.append(scored)
                spent.update(each for each in sources(scored) if each[0] == refusal)
        seen = {id(scored) for scored in picked}
        left = [scored for scored in left if id(scored) not in seen]
        if spent:
            refused += [scored for scored in left if not spent.isdisjoint(sources(scored))]
            left = [scored for scored in left if spent.isdisjoint(sources(scored))]
    return Mix(own, external, refused)
