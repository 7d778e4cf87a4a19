"""Filters: which of the pool's external groups a round trains on.

A filter is found by its name in the entry point group `swarmnode.filters`; the entry point is
called with the node's draw rule and returns an object with `select` and `wants_dead`. Filters look
at the accuracy channel alone. Source: swarm sampling, section 4 (nonzero-advantage).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import ClassVar, Literal, Protocol

from swarmnode.turns import in_turns
from swarmnode.types import Scored

Draw = Callable[[Sequence[Scored], int, random.Random], list[Scored]]
"""Draws at most `count` distinct groups at random."""

ENTRY_POINT_GROUP = "swarmnode.filters"


class Filter(Protocol):
    """Picks groups; must not change them."""

    @property
    def wants_dead(self) -> bool:
        """Whether groups without both successes and failures are worth fetching."""

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` of the candidates."""


class UnknownFilter(LookupError):
    """No installed package brings a filter of that name."""


def load_filter(name: str, draw: Draw) -> Filter:
    """The filter called `name`. Raises UnknownFilter with the names that exist."""
    found = {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}
    if name not in found:
        raise UnknownFilter(f"no filter is called {name!r}; there are {', '.join(sorted(found))}")
    made: Filter = found[name].load()(draw)
    return made


def draw_rule(kind: Literal["peers", "groups"]) -> Draw:
    """The draw rule that the setting `selection.draw` names."""
    return draw_peers_first if kind == "peers" else draw_uniformly


def draw_uniformly(candidates: Sequence[Scored], count: int, rng: random.Random) -> list[Scored]:
    """Every group equally likely (the paper)."""
    return rng.sample(list(candidates), min(count, len(candidates)))


def draw_peers_first(candidates: Sequence[Scored], count: int, rng: random.Random) -> list[Scored]:
    """Round after round one group of each address prefix; within it, one peer after the other.

    Prefixes, peers and groups come in random order. So nobody is drawn more often for publishing
    much, nor for having many keys: those of one prefix share its turn. A group without a prefix is
    its publisher's own.
    """
    by_peer: defaultdict[tuple[str, bytes], list[Scored]] = defaultdict(list)
    for scored in candidates:
        by_peer[scored.prefix, scored.group.publisher].append(scored)
    by_prefix: defaultdict[str | bytes, list[list[Scored]]] = defaultdict(list)
    for (prefix, publisher), groups in sorted(by_peer.items(), key=lambda item: item[0]):
        by_prefix[prefix or publisher].append(rng.sample(groups, len(groups)))
    return in_turns([in_turns(peers, rng) for peers in by_prefix.values()], rng)[:count]


@dataclass(frozen=True, slots=True)
class NonzeroAdvantage:
    """Groups with both successes and failures, drawn at random: the filter of the paper."""

    draw: Draw
    wants_dead: ClassVar[bool] = False

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` live groups."""
        return self.draw(_live(candidates), count, rng)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Any group, drawn at random: what the paper's open swarm did."""

    draw: Draw
    wants_dead: ClassVar[bool] = True

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` groups."""
        return self.draw(candidates, count, rng)


@dataclass(frozen=True, slots=True)
class TopReward:
    """The groups with the most successes: rl-swarm's choice, which favours easy questions."""

    draw: Draw
    wants_dead: ClassVar[bool] = True

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` groups, the highest pass rate first."""
        return _highest(self.draw, candidates, count, rng, lambda scored: scored.pass_rate)


@dataclass(frozen=True, slots=True)
class Learnability:
    """The live groups whose pass rate p is closest to one half: the largest p(1 - p)."""

    draw: Draw
    wants_dead: ClassVar[bool] = False

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` live groups, the largest variance of a success first."""
        return _highest(self.draw, _live(candidates), count, rng, _variance)


@dataclass(frozen=True, slots=True)
class Fresh:
    """The live groups that arrived last."""

    draw: Draw
    wants_dead: ClassVar[bool] = False

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` live groups, the newest first."""
        return _highest(self.draw, _live(candidates), count, rng, lambda scored: scored.received)


@dataclass(frozen=True, slots=True)
class Balanced:
    """Live groups, one task after the other, so that a rare task is not crowded out."""

    draw: Draw
    wants_dead: ClassVar[bool] = False

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` live groups, spread over the tasks as evenly as possible."""
        live = _live(candidates)
        tasks = sorted({scored.group.question.task for scored in live})
        rng.shuffle(tasks)
        queues = [
            self.draw([s for s in live if s.group.question.task == task], count, rng)
            for task in tasks
        ]
        turns = [queue[turn] for turn in range(count) for queue in queues if turn < len(queue)]
        return turns[:count]


def _live(candidates: Sequence[Scored]) -> list[Scored]:
    return [scored for scored in candidates if scored.live]


def _variance(scored: Scored) -> float:
    return scored.pass_rate * (1.0 - scored.pass_rate)


def _highest(
    draw: Draw,
    candidates: Sequence[Scored],
    count: int,
    rng: random.Random,
    rank: Callable[[Scored], float],
) -> list[Scored]:
    # A stable sort of shuffled groups: ties are broken at random, by the draw rule.
    shuffled = draw(candidates, len(candidates), rng)
    return sorted(shuffled, key=rank, reverse=True)[:count]
