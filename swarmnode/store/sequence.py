"""The sequence numbers of one key's bundles: reserved in blocks before they are used."""

from __future__ import annotations

from typing import Protocol

from swarmproto import next_sequence

BLOCK_NUMBERS = 1000


class ReserveSequence(Protocol):
    """Sets sequence numbers aside."""

    async def __call__(self, at_least: int, count: int) -> int:
        """The first of `count` numbers in a row that nobody else is given, ever."""


class SequenceNumbers:
    """Gives each number once; numbers follow the clock, as swarmproto.next_sequence says."""

    def __init__(self, reserve: ReserveSequence) -> None:
        self._reserve = reserve
        self._last = -1
        self._end = 0

    async def next(self, now_ms: int) -> int:
        """The number of the next bundle; `now_ms` is in unix milliseconds."""
        number = next_sequence(self._last, now_ms)
        if number >= self._end:
            number = await self._reserve(number, BLOCK_NUMBERS)
            self._end = number + BLOCK_NUMBERS
        self._last = number
        return number
