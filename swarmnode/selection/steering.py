"""Steering: the shares of the node's own questions decide of which tasks external groups are. Pure.

For each of the J places a task is drawn by the shares, as for an own question, and the filter picks
one group of that task. Where the pool has nothing of it that suits the filter, the place goes to
another task by the shares of those that are left: a peer's success teaches more than an empty
place. A task without a share gets none. Knows no scheduler.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Literal

from swarmnode.selection.filters import Draw, Filter, draw_peers_first, draw_rule, load_filter
from swarmnode.types import Scored


class Turns:
    """`draw_peers_first` over several draws: prefixes, then peers, that were drawn less come first.

    Without it whoever has groups of every task would be drawn anew for each of them.
    """

    def __init__(self) -> None:
        self._had: Counter[str | bytes] = Counter()

    def begin(self) -> None:
        """Nobody was drawn yet."""
        self._had.clear()

    def took(self, scored: Scored) -> None:
        """A group was taken."""
        self._had.update({_prefix(scored): 1, scored.group.publisher: 1})

    def __call__(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> list[Scored]:
        """As Draw says."""
        order = draw_peers_first(candidates, len(candidates), rng)
        order.sort(key=lambda each: (self._had[_prefix(each)], self._had[each.group.publisher]))
        return order[:count]


class Steered:
    """A filter that is asked place by place, each time among the groups of one task.

    A round calls `begin`, lets the mix ask, and reads `figures`.
    """

    def __init__(
        self, chosen_by: Filter, shares: Callable[[], Mapping[str, float]], turns: Turns
    ) -> None:
        """`shares` tells the shares of tasks at the moment; `turns` is the filter's draw rule where
        it draws peers first, else nobody's."""
        self._chosen_by = chosen_by
        self._told = shares
        self._turns = turns
        self._shares: Mapping[str, float] = {}
        self._offered: Set[str] = frozenset()

    @property
    def wants_dead(self) -> bool:
        """As the filter does."""
        return self._chosen_by.wants_dead

    def begin(self, candidates: Sequence[Scored]) -> None:
        """A round with these candidates, and the shares of now; nobody had a place yet."""
        self._shares = self._told()
        self._offered = {scored.group.question.task for scored in candidates}
        self._turns.begin()

    def select(
        self, candidates: Sequence[Scored], count: int, rng: random.Random
    ) -> Sequence[Scored]:
        """At most `count` groups that the filter picks, of tasks that the shares draw."""
        left = _by_task(candidates)
        open_shares = {task: share for task, share in self._shares.items() if share > 0.0}
        picked: list[Scored] = []
        while open_shares and len(picked) < count:
            (task,) = rng.choices(list(open_shares), list(open_shares.values()))
            found = self._chosen_by.select(left[task], 1, rng)
            if not found:
                del open_shares[task]
                continue
            self._turns.took(found[0])
            picked.append(found[0])
            left[task] = [each for each in left[task] if each is not found[0]]
        return picked

    def figures(self, chosen: Sequence[Scored]) -> Mapping[str, float]:
        """Of a round in which these were chosen, for the names in docs/metrics.md."""
        shares = self._shares
        taken = Counter(scored.group.question.task for scored in chosen)
        return {
            "steering/offered": math.fsum(shares.get(task, 0.0) for task in self._offered),
            **{f"steering/wanted/{task}": share for task, share in shares.items()},
            **{f"steering/taken/{task}": taken[task] / len(chosen) for task in shares if chosen},
        }


def steered_filter(
    name: str, draw: Literal["peers", "groups"], shares: Callable[[], Mapping[str, float]]
) -> Steered:
    """The filter called `name`, steered. Raises UnknownFilter."""
    turns = Turns()
    rule: Draw = turns if draw == "peers" else draw_rule(draw)
    return Steered(load_filter(name, rule), shares, turns)


def _by_task(candidates: Sequence[Scored]) -> defaultdict[str, list[Scored]]:
    by_task: defaultdict[str, list[Scored]] = defaultdict(list)
    for scored in candidates:
        by_task[scored.group.question.task].append(scored)
    return by_task


def _prefix(scored: Scored) -> str | bytes:
    return scored.prefix or scored.group.publisher
