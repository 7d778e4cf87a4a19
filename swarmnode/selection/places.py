"""Whose groups have a place in the pool: prefixes share it first, then the peers of each. Pure.

A group that comes into a full pool takes the place of one of the prefix that holds the most, as
long as that makes the shares more equal; so fifty keys at one address hold what one of them would,
and whoever was there first keeps nobody out. Free places are given up to an equal share of those
who hold any, and the rest is left to them: who fills all of it loses it again, and what was
fetched twice was fetched in vain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class Places:
    """A plan: who would hold how many of `capacity` places."""

    def __init__(self, capacity: int, held: Mapping[str, int]) -> None:
        self._capacity = capacity
        self._held = Counter(held)

    def open_to(self, prefix: str) -> bool:
        """Whether a group of this prefix would stay, and not just until the next one comes."""
        if self._free:
            return self._held[prefix] < self._equal_share(prefix)
        return self._held[prefix] + 1 < max(self._held.values())

    def give(self, prefix: str, wanted: int) -> int:
        """How many of so many groups would stay; these are held from now on."""
        given = 0
        while given < wanted and self.open_to(prefix):
            if not self._free:
                self._held[max(self._held, key=lambda each: self._held[each])] -= 1
            self._held[prefix] += 1
            given += 1
        return given

    def _equal_share(self, prefix: str) -> int:
        holders = sum(1 for each, count in self._held.items() if count or each == prefix)
        return -(-self._capacity // max(1, holders + (prefix not in self._held)))

    @property
    def _free(self) -> bool:
        return self._held.total() < self._capacity
