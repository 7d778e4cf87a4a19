"""How the trainer's weights get to the generators of a node, and who has which.

Over shared memory or a folder they are put there, and whoever is about to sample takes them. A
broadcast wants everybody at once (weights/broadcast.py): as long as one is pending, generators come
to it between two batches, and those that wait to begin come at once. One that has come, or come
back, gets the weights as soon as the trainer isn't training, or with those of everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import structlog

from swarmnode.process import ChildFailed
from swarmnode.split.generators import Generator
from swarmnode.split.versions import Versions

log = structlog.get_logger()


class Publishing(Protocol):
    """The policy in the trainer's process."""

    async def publish_weights(
        self, version: int, generators: Sequence[int] = ()
    ) -> Mapping[str, Any]:
        """Hand the weights on under that number; `generators` are those a broadcast goes to."""


class Handing:
    """One node's weights on their way. All that is asked of the trainer comes from one task."""

    def __init__(
        self,
        policy: Publishing,
        versions: Versions,
        generators: Sequence[Generator],
        ring: Callable[[], None],
        *,
        at_once: bool,
    ) -> None:
        """`at_once`: everybody has to take part. `ring` wakes whoever waits."""
        self._policy = policy
        self._versions = versions
        self._generators = generators
        self._ring = ring
        self._at_once = at_once
        self._expected: set[int] = set()
        self.published = 0
        """The number of the weights that generators can take."""

    async def begin(self) -> None:
        """Hand the first weights on, where nobody need be there for it. ChildError."""
        if self._at_once:
            self.published = self._versions.newest
        else:
            await self._hand_over(())

    async def go_on(self) -> None:
        """Hand weights on where there are other ones than generators have; tell where it fails.

        ChildGone, ChildTimedOut.
        """
        newer = self._versions.newest != self.published
        numbers = [
            one.number
            for one in self._generators
            if self._at_once and one.stands and (newer or not self.has(one))
        ]
        if not newer and not numbers:
            return
        if self._at_once and not numbers:
            # Whoever comes takes them as they are then.
            self.published = self._versions.newest
            return
        try:
            await self._hand_over(numbers)
        except ChildFailed as error:
            # The generators go on with what they have, as far as that is not too stale.
            log.error("weights not published", version=self._versions.newest, why=str(error))

    def has(self, generator: Generator) -> bool:
        """Whether it has weights to sample with, or will find some."""
        return not self._at_once or generator.policy.has_weights

    def expects(self, generator: Generator) -> bool:
        """Whether it is waited for, to take weights."""
        return generator.number in self._expected

    def took(self, generator: Generator) -> None:
        """It has taken weights."""
        self._expected.discard(generator.number)

    async def _hand_over(self, numbers: Sequence[int]) -> None:
        number = self._versions.newest
        self._expected = set(numbers)
        self._ring()
        try:
            await self._policy.publish_weights(number, numbers)
        finally:
            self._expected = set()
        self.published = number
