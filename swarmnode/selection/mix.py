"""The training set of a round: SampleSelf(I) ∪ SampleExternal(J) (swarm sampling, Algorithm 1)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from swarmnode.selection.filters import Filter, draw_uniformly
from swarmnode.types import Scored


def select(
    local: Sequence[Scored],
    candidates: Sequence[Scored],
    *,
    local_count: int,
    external_count: int,
    chosen_by: Filter,
    rng: random.Random,
) -> tuple[Sequence[Scored], Sequence[Scored]]:
    """Choose I local groups uniformly and at most J external ones by the filter.

    Local groups are not filtered, as in the paper. Where fewer than J candidates suit the filter
    the set stays smaller: a round never waits for the swarm.
    """
    own = draw_uniformly(local, local_count, rng)
    return own, chosen_by.select(candidates, external_count, rng) if external_count else ()
