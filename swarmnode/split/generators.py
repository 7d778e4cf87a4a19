"""One generator process and what is known of it: made, made again when it is lost, and watched.

Knows no queue and no rounds. Invariant: a generator that was lost begins with the newest weights.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from swarmnode.clock import Clock
from swarmnode.policy.generator import RemoteGenerator
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import ChildError
from swarmnode.split.pace import Pace

MOST_SECONDS_BETWEEN_STARTS = 60.0

log = structlog.get_logger()


class Host(Protocol):
    """Where a generator runs: a child process, or a place for one of another machine."""

    @property
    def alive(self) -> bool:
        """Whether somebody is there."""

    @property
    def starts(self) -> int:
        """How often somebody has come."""

    async def begin(self) -> None:
        """Start it, or wait until somebody has come."""


class Generator:
    """A generator of a node, by its name and its number from 1 on."""

    def __init__(
        self,
        name: str,
        number: int,
        host: Host,
        policy: RemoteGenerator,
        order: Callable[[], Awaitable[PolicyOrder]],
        clock: Clock,
        *,
        elsewhere: bool = False,
    ) -> None:
        """`order` is asked whenever the policy has to be made; one from `elsewhere` comes when it
        pleases."""
        self.name = name
        self.number = number
        self.elsewhere = elsewhere
        self.policy = policy
        self.under_way = 0
        """Groups that it has begun and not delivered."""
        self.waiting_since: float | None = None
        """Since when it may begin nothing; None while it samples or is being made."""
        self.pace = Pace()
        """Of its groups."""
        self.failures = 0
        """In a row, without a group in between."""
        self.problem = ""
        """Why it failed last, in one line; "" since it delivered."""
        self._host = host
        self._order = order
        self._clock = clock
        self._made_for = 0
        """Which of those who came has the policy; 0 where none has."""
        self._pause = 1.0

    @property
    def stands(self) -> bool:
        """Whether it has a policy to sample with."""
        return self._host.alive and self._made_for == self._host.starts

    async def stand(self) -> None:
        """Make the policy where there is none, in a new process if that was lost. ChildError."""
        if self.stands:
            return
        if not self._host.alive:
            await self._host.begin()
        # Somebody else may come in its place meanwhile, without a policy.
        starts = self._host.starts
        await self.policy.create(await self._order())
        self._made_for = starts
        log.info("generator ready", name=self.name, starts=self._host.starts)

    def did(self, groups: int, work_seconds: float, wait_seconds: float) -> None:
        """It has delivered so many groups."""
        self.pace.did(groups, work_seconds, wait_seconds)
        self.failures, self.problem, self._pause = 0, "", 1.0

    async def failed(self, error: ChildError | OSError) -> None:
        """Tell of a failure, and wait: longer each time, until it stands."""
        again = self._pause
        self.failures, self.problem = self.failures + 1, str(error)
        log.error("generator failed", name=self.name, why=str(error), again_in_seconds=again)
        await self._clock.sleep(again)
        self._pause = min(2 * again, MOST_SECONDS_BETWEEN_STARTS)
