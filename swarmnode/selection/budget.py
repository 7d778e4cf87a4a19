"""What of that which is worth fetching is fetched in one look. Pure, with a generator passed in."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from swarmproto import Announcement

AUTHORS = 4
"""A look takes from so many authors where there are as many, so that a round has as many to mix."""

Wanted = tuple[Announcement, tuple[int, ...]]
"""An announcement and the positions of its groups that are worth fetching."""


def groups_of(wanted: Sequence[Wanted]) -> int:
    """How many groups these are."""
    return sum(len(positions) for _, positions in wanted)


def within_budget(
    found: Sequence[Wanted], *, groups: int, announced_bytes: int, rng: random.Random
) -> list[Wanted]:
    """Bundles in random order, cut so that at most `groups` groups are fetched.

    No key's second bundle comes before another's first, so that announcing much gains nothing, and
    none gives more than its share among AUTHORS. A bundle whose groups would exceed
    `announced_bytes`, by the mean size that it announces, is left out.
    """
    chosen: list[Wanted] = []
    authors = len({announcement.public_key for announcement, _ in found})
    share = -(-groups // max(1, min(authors, AUTHORS)))
    for announcement, positions in _in_turns(found, rng):
        if groups <= 0:
            break
        kept = sorted(rng.sample(positions, min(groups, share, len(positions))))
        size = announcement.size * len(kept) // len(announcement.groups)
        if size > announced_bytes:
            continue
        chosen.append((announcement, tuple(kept)))
        groups -= len(kept)
        announced_bytes -= size
    return chosen


def _in_turns(found: Sequence[Wanted], rng: random.Random) -> Sequence[Wanted]:
    """Shuffled; first one of each key, then a second one, and so on."""
    shuffled = list(found)
    rng.shuffle(shuffled)
    turns: Counter[bytes] = Counter()
    by_turn: list[tuple[int, Wanted]] = []
    for wanted in shuffled:
        key = wanted[0].public_key
        by_turn.append((turns[key], wanted))
        turns[key] += 1
    by_turn.sort(key=lambda pair: pair[0])
    return [wanted for _, wanted in by_turn]
