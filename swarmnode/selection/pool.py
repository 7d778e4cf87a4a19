"""The pool: scored external groups that wait to be trained on, once each or until they leave.

Bounded by age, by count and by bytes, and fair: when it is full, the address prefix that holds the
most loses the oldest group of its peer that holds the most. Knows no network and no filter; the
clock's reading is passed in.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from swarmnode.selection.places import Places
from swarmnode.types import Completion, Scored

BYTES_MAX = 64 * 1024 * 1024
"""Of memory, by the estimate of `held_bytes`."""

_GROUP_BYTES = 2048
_COMPLETION_BYTES = 512
_NUMBER_BYTES = 32
"""Of a float in a tuple."""
_CHARACTER_BYTES = 4
"""At most, in a text."""


def held_bytes(scored: Scored) -> int:
    """Bytes of memory that a group takes, rather too many than too few."""
    question = scored.group.question
    texts = len(question.text) + len(question.answer)
    return (
        _GROUP_BYTES
        + _CHARACTER_BYTES * texts
        + sum(map(_completion_bytes, scored.group.completions))
    )


def _completion_bytes(completion: Completion) -> int:
    numbers = len(completion.logprobs or ()) + len(completion.token_ids or ())
    return _COMPLETION_BYTES + _CHARACTER_BYTES * len(completion.text) + _NUMBER_BYTES * numbers


class Pool:
    """At most `capacity` groups of `bytes_max` bytes in all, none older than `age_seconds`.

    With `replay` a group may be trained on again and again until it leaves.
    """

    def __init__(
        self,
        *,
        capacity: int,
        age_seconds: float,
        replay: bool = False,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._capacity = capacity
        self._age_seconds = age_seconds
        self._replay = replay
        self._bytes_max = bytes_max
        self._groups: list[tuple[Scored, int]] = []
        """Each with its bytes, the oldest first."""

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def size(self) -> int:
        """Bytes held, as `held_bytes` estimates them."""
        return sum(size for _, size in self._groups)

    @property
    def room(self) -> int:
        """How many more groups it takes before one has to leave."""
        return self._capacity - len(self._groups)

    def places(self) -> Places:
        """Who holds how many places now; to plan with."""
        return Places(self._capacity, Counter(held.prefix for held, _ in self._groups))

    def add(self, scored: Scored) -> Sequence[Scored]:
        """Put a group in; returns those that had to leave for it, itself perhaps among them."""
        self._groups.append((scored, held_bytes(scored)))
        left: list[Scored] = []
        while len(self._groups) > self._capacity or self.size > self._bytes_max:
            leaving = self._leaving()
            left.append(leaving)
            self._groups = [each for each in self._groups if each[0] is not leaving]
        return left

    def fresh(self, now: float) -> Sequence[Scored]:
        """The groups that are not too old at `now`, oldest first; the others leave."""
        oldest = now - self._age_seconds
        self._groups = [each for each in self._groups if each[0].received >= oldest]
        return tuple(held for held, _ in self._groups)

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
        self._groups = [each for each in self._groups if id(each[0]) not in gone]

    def _leaving(self) -> Scored:
        """The oldest of the peer with the most, of the prefix with the most.

        The most of what there is, places or bytes, since either may be what is short.
        """
        prefixes: defaultdict[str, float] = defaultdict(float)
        peers: defaultdict[tuple[str, bytes], float] = defaultdict(float)
        for held, size in self._groups:
            share = max(1 / self._capacity, size / self._bytes_max)
            prefixes[held.prefix] += share
            peers[held.prefix, held.group.publisher] += share
        prefix = max(prefixes, key=lambda each: prefixes[each])
        near = [held for held, _ in self._groups if held.prefix == prefix]
        most = max(peers[prefix, held.group.publisher] for held in near)
        return next(held for held in near if peers[prefix, held.group.publisher] == most)
