"""What of that which is worth fetching is fetched in one look. Pure, with a generator passed in.

Shared out by address prefix first, then by key: keys are free, so fifty of them at one address get
together what one of them would get there alone.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from swarmnode.selection.places import Places
from swarmproto import Announcement

AUTHORS = 4
"""A look takes from so many prefixes where there are as many, so that a round has as many to mix;
and of one prefix from so many keys."""


Preference = Callable[[str], float]
"""By task, how much its groups are preferred to others of their bundle; at least 0."""


def indifferent(_task: str) -> float:
    """All alike."""
    return 1.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """An announcement, the positions of its groups that are worth fetching, and its prefix."""

    announcement: Announcement
    positions: tuple[int, ...]
    prefix: str


def groups_of(wanted: Sequence[Wanted]) -> int:
    """How many groups these are."""
    return sum(len(each.positions) for each in wanted)


def within_budget(
    found: Sequence[Wanted],
    *,
    groups: int,
    announced_bytes: int,
    places: Places,
    rng: random.Random,
    prefers: Preference = indifferent,
) -> list[Wanted]:
    """Bundles in random order, cut so that at most `groups` groups are fetched, for which there
    are `places`.

    No prefix's second bundle comes before another's first, and so for keys within a prefix: who
    announces much, or under many keys, gains nothing. None gives more at a time than its share
    among AUTHORS, and of its groups the rather those that `prefers` names, as they are announced. A
    bundle whose groups would exceed `announced_bytes`, by the mean size that it announces, is left
    out.
    """
    chosen: list[Wanted] = []
    shares = _shares(found, groups)
    for each in _in_turns(found, rng):
        if groups <= 0:
            break
        share = shares[each.prefix]
        most = min(groups, share, len(each.positions))
        size = each.announcement.size * most // len(each.announcement.groups)
        if size > announced_bytes:
            continue
        given = places.give(each.prefix, most)
        if given == 0:
            continue
        kept = _some_of(each, given, prefers, rng)
        chosen.append(replace(each, positions=kept))
        groups -= given
        announced_bytes -= size * given // most
    return chosen


def _some_of(
    wanted: Wanted, count: int, prefers: Preference, rng: random.Random
) -> tuple[int, ...]:
    """So many positions, drawn one after the other in proportion to what is preferred.

    As the largest ln(u) / weight (Efraimidis and Spirakis, 2006, algorithm A, in logarithms).
    """
    if prefers is indifferent:
        return tuple(sorted(rng.sample(wanted.positions, count)))
    groups = wanted.announcement.groups
    keys: dict[int, float] = {}
    for position in wanted.positions:
        weight = prefers(groups[position].task)
        keys[position] = math.log(1.0 - rng.random()) / weight if weight > 0.0 else -math.inf
    return tuple(sorted(sorted(keys, key=lambda each: keys[each], reverse=True)[:count]))


def _shares(found: Sequence[Wanted], groups: int) -> dict[str, int]:
    """By prefix: how many groups one of its keys gives at a time."""
    keys: defaultdict[str, set[bytes]] = defaultdict(set)
    for each in found:
        keys[each.prefix].add(each.announcement.public_key)
    of_prefix = -(-groups // max(1, min(len(keys), AUTHORS)))
    return {prefix: -(-of_prefix // min(len(own), AUTHORS)) for prefix, own in keys.items()}


def _in_turns(found: Sequence[Wanted], rng: random.Random) -> Sequence[Wanted]:
    """Shuffled; of each prefix first one, then a second one, and so of each key within it."""
    shuffled = list(found)
    rng.shuffle(shuffled)
    by_key = _turn_by_turn(shuffled, [each.announcement.public_key for each in shuffled])
    return _turn_by_turn(by_key, [each.prefix for each in by_key])


def _turn_by_turn(wanted: Sequence[Wanted], owners: Sequence[str | bytes]) -> list[Wanted]:
    turns: Counter[str | bytes] = Counter()
    by_turn: list[tuple[int, Wanted]] = []
    for owner, each in zip(owners, wanted, strict=True):
        by_turn.append((turns[owner], each))
        turns[owner] += 1
    by_turn.sort(key=lambda pair: pair[0])
    return [each for _, each in by_turn]
