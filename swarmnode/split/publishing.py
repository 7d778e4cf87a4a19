"""The trainer's weights on their way to the generators, under their numbers, and who has which.

Knows no queue and no rounds. Invariant: what the generators can take is whole, and its number is
above all that they could take before. What can't be handed over is tried again after growing
pauses: the generators go on with what they have meanwhile, as far as that is not too stale.

Over shared memory or a folder weights are put there, and whoever is about to sample takes them. A
broadcast wants everybody at once (broadcast_out.py): as long as one is pending, generators come
to it between two batches, and those that wait to begin come at once. One that has come, or come
back, gets the weights as soon as the trainer isn't training, or with those of everybody else. All
that is asked of the trainer comes from one task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

import structlog

from swarmnode.clock import Clock
from swarmnode.process import ChildError, ChildFailed
from swarmnode.round import Policy
from swarmnode.split.generators import Generator
from swarmnode.split.versions import Versions
from swarmnode.types import PolicyInfo

MOST_SECONDS_BETWEEN_TRIES = 60.0

log = structlog.get_logger()


class TrainingPolicy(Policy, Protocol):
    """The policy in the trainer's process."""

    @property
    def info(self) -> PolicyInfo:
        """Which policy it is now; its version counts the optimizer steps."""

    @property
    def lost(self) -> bool:
        """Whether its process is gone."""

    async def publish_weights(
        self, version: int, generators: Sequence[int] = ()
    ) -> Mapping[str, Any]:
        """Hand the weights on under that number; `generators` are those a broadcast goes to."""


class Publishing:
    """One trainer's weights: which number they have, who has them, and which can be taken."""

    def __init__(
        self,
        policy: TrainingPolicy,
        generators: Sequence[Generator],
        ring: Callable[[], None],
        clock: Clock,
        *,
        versions_per_round: int,
        at_once: bool,
    ) -> None:
        """`at_once`: everybody has to take part. `ring` wakes whoever waits."""
        self.versions = Versions(versions_per_round)
        self.problem = ""
        """Why the newest weights can't be handed over, in one line; "" where they can."""
        self._policy = policy
        self._generators = generators
        self._ring = ring
        self._clock = clock
        self._at_once = at_once
        self._expected: set[int] = set()
        self._published = 0
        """The number of the weights that generators can take."""
        self._again = False
        """Whether a generator could not take them."""
        self._pause = 1.0
        self._not_before = 0.0

    @property
    def lag(self) -> int:
        """Versions that what can be taken is behind the trainer."""
        return self.versions.lag(self._published)

    async def begin(self, saved: Mapping[str, Any], seen: int) -> None:
        """Hand over what the trainer begins with, where nobody need be there for it.

        ChildError; see `Versions.restore`.
        """
        self.versions.restore(saved, self._policy.info.version, seen)
        if self._at_once:
            self._published = self.versions.newest
        else:
            await self._hand_over(())

    def trained(self) -> None:
        """The trainer may have taken steps."""
        self.versions.trained(self._policy.info.version)

    def has(self, generator: Generator) -> bool:
        """Whether it has weights to sample with, or will find some."""
        return not self._at_once or generator.policy.has_weights

    def expects(self, generator: Generator) -> bool:
        """Whether it is waited for, to take weights."""
        return generator.number in self._expected

    def took(self, generator: Generator) -> None:
        """It has taken weights."""
        self._expected.discard(generator.number)

    def not_taken(self) -> None:
        """A generator could not take what there is: it goes out once more, anew."""
        self._again = True

    async def publish(self) -> None:
        """Hand the weights on, where they are other ones than the generators can have. ChildError
        where the trainer is lost."""
        if self._clock.now() < self._not_before:
            return
        if self._again and self.versions.newest == self._published:
            self.versions.went_back(self._policy.info.version)
        newer = self.versions.newest != self._published
        numbers = [
            one.number
            for one in self._generators
            if self._at_once and one.stands and (newer or not self.has(one))
        ]
        if not newer and not numbers:
            return
        if self._at_once and not numbers:
            # Whoever comes takes them as they are then.
            self._published, self._again = self.versions.newest, False
            return
        try:
            await self._hand_over(numbers)
        except ChildFailed as error:
            self._failed(error)

    async def went_back(self) -> int:
        """Hand over those of a checkpoint, to which the trainer went back; their number.

        Where the trainer is lost meanwhile, the next call says so.
        """
        number = self.versions.went_back(self._policy.info.version)
        log.warning("weights went back", steps=self._policy.info.version, published_as=number)
        with suppress(ChildError):
            await self.publish()
        return number

    async def _hand_over(self, numbers: Sequence[int]) -> None:
        number = self.versions.newest
        self._expected = set(numbers)
        self._ring()
        try:
            await self._policy.publish_weights(number, numbers)
        finally:
            self._expected = set()
        self._published, self._again = number, False
        self.problem, self._pause, self._not_before = "", 1.0, 0.0

    def _failed(self, error: ChildFailed) -> None:
        self.problem = str(error)
        log.error(
            "weights not published",
            version=self.versions.newest,
            why=self.problem,
            again_in_seconds=self._pause,
        )
        self._not_before = self._clock.now() + self._pause
        self._pause = min(2 * self._pause, MOST_SECONDS_BETWEEN_TRIES)
