"""A filter: which of peers' groups a round trains on."""

from __future__ import annotations

import random
from collections.abc import Sequence

from swarmnode.selection.filters import Draw
from swarmnode.types import Scored


class Hardest:
    """The live groups with the fewest successes."""

    wants_dead = False

    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` of the candidates, those with the fewest successes first."""
        live = [scored for scored in candidates if scored.live]
        # The draw rule shuffles, peers by turns; the sort is stable, so it decides between equals.
        shuffled = self._draw(live, len(live), rng)
        return sorted(shuffled, key=lambda scored: scored.pass_rate)[:count]
