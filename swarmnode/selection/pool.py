"""The pool: scored external groups that wait to be trained on, once each or until they leave.

Bounded by age and by count, and fair: when it is full, the peer that holds the most places loses
its oldest group. Knows no network and no filter; the clock's reading is passed in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from swarmnode.types import Scored


class Pool:
    """At most `capacity` groups, none older than `age_seconds`.

    With `replay` a group may be trained on again and again until it leaves.
    """

    def __init__(self, *, capacity: int, age_seconds: float, replay: bool = False) -> None:
        self._capacity = capacity
        self._age_seconds = age_seconds
        self._replay = replay
        self._groups: list[Scored] = []

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def room(self) -> int:
        """How many more groups it takes before one has to leave."""
        return self._capacity - len(self._groups)

    def add(self, scored: Scored) -> Scored | None:
        """Put a group in; returns the group that had to leave for it, which may be the same."""
        self._groups.append(scored)
        if len(self._groups) <= self._capacity:
            return None
        places = Counter(held.group.publisher for held in self._groups)
        most = max(places.values())
        leaving = next(held for held in self._groups if places[held.group.publisher] == most)
        self._groups.remove(leaving)
        return leaving

    def fresh(self, now: float) -> Sequence[Scored]:
        """The groups that are not too old at `now`, oldest first; the others leave."""
        oldest = now - self._age_seconds
        self._groups = [held for held in self._groups if held.received >= oldest]
        return tuple(self._groups)

    def clear(self) -> None:
        """Let go of everything."""
        self._groups = []

    def take(self, chosen: Iterable[Scored]) -> None:
        """Remove groups that were chosen for training, so that none is trained on twice.

        Under `replay` they stay.
        """
        if self._replay:
            return
        gone = {id(scored) for scored in chosen}
        self._groups = [held for held in self._groups if id(held) not in gone]
