"""Keeps one policy alive in its host: makes it, saves it, and brings it back when the host is lost.

Knows no rounds and no network. Invariant: what was saved last is what a new host goes on from, so
that losing a host costs at most what was learned since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from swarmnode.observe.words import size_of
from swarmnode.policy.checkpoint import Rejected
from swarmnode.policy.client import Checkpoint, RemotePolicy, Restored
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import Child, ChildError

MOST_SECONDS_BETWEEN_STARTS = 60.0

log = structlog.get_logger()


class PolicyKeeper:
    """One policy, its host and its checkpoints."""

    def __init__(
        self,
        host: Child,
        policy: RemotePolicy,
        order: Callable[[], Awaitable[PolicyOrder]],
        checkpoints: Path,
    ) -> None:
        """`order` is asked whenever the policy has to be made."""
        self._host = host
        self._policy = policy
        self._order = order
        self._checkpoints = checkpoints
        self.newest: Checkpoint | None = None
        """The checkpoint that this process wrote last, or went on from."""
        self.newest_version = 0
        """The policy's version in it."""
        self.failures = 0
        """Checkpoints in a row that could not be written."""
        self.problem = ""
        """Why, in one line."""

    async def start(self) -> Any:
        """Make the policy and go on from its newest checkpoint; returns what was saved with it.

        None without a checkpoint. Raises ChildFailed where the checkpoints are of another policy,
        and ChildGone or ChildTimedOut when the host is lost.
        """
        figures = await self._policy.create(await self._order())
        log.info(
            "model ready",
            name=self._policy.info.name,
            parameters=int(figures["parameters"]),
            **_memory(figures),
        )
        report = await self._policy.restore(self._checkpoints)
        _tell_rejected(report.rejected)
        if report.restored is None:
            return None
        self._goes_on_from(report.restored)
        log.info("resumed", path=str(report.restored.path), version=report.restored.version)
        return report.restored.extra

    async def recover(self) -> None:
        """Start the host anew until it stands, for ever, with growing pauses."""
        pause = 1.0
        while True:
            try:
                self._host.start()
                await self.start()
                log.warning("policy host restarted", version=self._policy.info.version)
                return
            except (ChildError, OSError) as error:
                log.error("policy host does not start", why=str(error), again_in_seconds=pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_SECONDS_BETWEEN_STARTS)

    async def roll_back(self) -> bool:
        """Take the policy back to its newest checkpoint; False where there is none."""
        report = await self._policy.restore(self._checkpoints)
        _tell_rejected(report.rejected)
        if report.restored is None:
            return False
        self._goes_on_from(report.restored)
        log.warning("rolled back", path=str(report.restored.path), version=report.restored.version)
        return True

    def _goes_on_from(self, restored: Restored) -> None:
        size = sum(file.stat().st_size for file in restored.path.iterdir())
        self.newest = Checkpoint(restored.path, size, seconds=0.0, rejected=())
        self.newest_version = restored.version

    @property
    def lost(self) -> bool:
        """Whether the host is gone."""
        return self._host.process_id is None

    async def save(self, extra: Any) -> bool:
        """Write a checkpoint; where that fails the policy goes on, and `problem` says why."""
        version = self._policy.info.version
        try:
            self.newest = await self._policy.save(self._checkpoints, extra)
        except ChildError as error:
            self.failures += 1
            self.problem = str(error)
            log.error("no checkpoint written", why=self.problem, failures=self.failures)
            return False
        self.failures, self.problem, self.newest_version = 0, "", version
        _tell_rejected(self.newest.rejected)
        return True


def _memory(figures: Mapping[str, float]) -> dict[str, str]:
    """What the model will need, where that was estimated."""
    wanted = figures.get("memory_bytes")
    return {} if wanted is None else {"memory_at_the_peak": size_of(wanted)}


def _tell_rejected(found: Sequence[Rejected]) -> None:
    for rejected in found:
        log.error("damaged checkpoint set aside", name=rejected.name, why=rejected.reason)
