"""The weight of a stranger's group: no more completions count than one of our own groups has.

Every completion of a group adds to the loss, and the swarm's rules allow 64 of them: uncut, one
group of a stranger would outweigh eight of ours. A larger group is cut to a random choice rather
than refused, so that nodes with different numbers of completions can learn from each other. Cut
after scoring, because only then is it known which completions keep the group live.
"""

from __future__ import annotations

import random
from dataclasses import replace

from swarmnode.types import Scored


def cut(scored: Scored, most: int, rng: random.Random) -> Scored:
    """At most `most` (2 or more) completions, chosen at random; a live group stays live."""
    count = len(scored.scores)
    if count <= most:
        return scored
    successes = scored.successes
    kept = rng.sample(range(count), most)
    if scored.live and len({successes[at] for at in kept}) == 1:
        others = [at for at in range(count) if successes[at] != successes[kept[0]]]
        kept[rng.randrange(most)] = rng.choice(others)
    kept.sort()
    completions = tuple(scored.group.completions[at] for at in kept)
    return replace(
        scored,
        group=replace(scored.group, completions=completions),
        scores=tuple(scored.scores[at] for at in kept),
    )
