"""What a daemon does about its guard-rails: it tells of them, and takes the policy back.

The last good checkpoint is the newest one, since none is written while something is wrong and the
policy may go back.
"""

from __future__ import annotations

from typing import Any

import structlog

from swarmnode.guard_rails import Rails
from swarmnode.keeper import PolicyKeeper
from swarmnode.observe.guard_warnings import alarms_of
from swarmnode.process import ChildError
from swarmnode.types import RoundReport

_KEPT = "guard_rails"

log = structlog.get_logger()


class Guarding:
    """The guard-rails of a node's rounds and the keeper of its policy."""

    def __init__(self, rails: Rails, keeper: PolicyKeeper) -> None:
        self._rails = rails
        self._keeper = keeper
        self._told: dict[str, bool] = {}
        """Whether critical, by what the log told of last."""

    def restore(self, extra: Any) -> None:
        """Go on from what a checkpoint kept; None begins anew."""
        self._rails.restore((extra or {}).get(_KEPT))

    async def after(self, report: RoundReport) -> bool:
        """Look at a round that ended; whether the policy was taken back to what is on disk."""
        alarms = alarms_of(report.metrics)
        for name, alarm in alarms.items():
            if self._told.get(name) != alarm.critical:
                log.warning(
                    "guard-rail",
                    figure=name,
                    now=round(alarm.recent, 3),
                    at_first=round(alarm.start, 3),
                    critical=alarm.critical,
                )
        self._told = {name: alarm.critical for name, alarm in alarms.items()}
        return self._rails.wants_back and await self._back()

    async def _back(self) -> bool:
        try:
            found = await self._keeper.roll_back()
        except ChildError as error:
            log.error("the policy cannot be rolled back", why=str(error))
            return False
        if found:
            self._rails.went_back()
        else:
            log.error("there is no checkpoint to roll back to")
        return found

    @property
    def may_save(self) -> bool:
        """Whether a checkpoint is wanted of now."""
        return self._rails.may_save

    async def save(self, extra: dict[str, Any]) -> bool:
        """Write a checkpoint with the baselines; whether it was written."""
        return await self._keeper.save({**extra, _KEPT: self._rails.to_values()})
