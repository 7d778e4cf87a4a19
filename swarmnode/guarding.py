"""What a daemon does about what watches its rounds: it tells of it, and takes the policy back.

That is the guard-rails, and the bounds of what peers' groups may do, whose fallback is told of and
kept with checkpoints in the same way. The last good checkpoint is the newest one, since none is
written while something is wrong and the policy may go back.
"""

from __future__ import annotations

from typing import Any

import structlog

from swarmnode.guard_rails import Rails
from swarmnode.keeper import PolicyKeeper
from swarmnode.observe.guard_warnings import alarms_of
from swarmnode.process import ChildError
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.types import RoundReport

_KEPT = "guard_rails"
_KEPT_BOUNDS = "external_bounds"

log = structlog.get_logger()


class Guarding:
    """The guard-rails and bounds of a node's rounds and the keeper of its policy."""

    def __init__(self, rails: Rails, bounds: ExternalBounds, keeper: PolicyKeeper) -> None:
        self._rails = rails
        self._bounds = bounds
        self._keeper = keeper
        self._told: dict[str, bool] = {}
        """Whether critical, by what the log told of last."""
        self._fallen = False
        """Whether the log told of a fallback last."""

    def restore(self, extra: Any) -> None:
        """Go on from what a checkpoint kept; None begins anew."""
        self._rails.restore((extra or {}).get(_KEPT))
        self._bounds.restore((extra or {}).get(_KEPT_BOUNDS))

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
        self._tell_of_fallback(report)
        return self._rails.wants_back and await self._back()

    def _tell_of_fallback(self, report: RoundReport) -> None:
        fallen = report.metrics.get("fallback/active", 0.0) > 0.0
        if fallen and not self._fallen:
            log.warning(
                "fallback: own groups alone",
                held_out_lost=round(report.metrics["fallback/drop"], 3),
                deviations=round(report.metrics["fallback/deviations"], 1),
                evaluations=int(report.metrics["fallback/evaluations_left"]),
            )
        elif self._fallen and not fallen:
            log.info("fallback ends: peers' groups are trained on again")
        self._fallen = fallen

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
        """Write a checkpoint with the baselines and the fallback; whether it was written."""
        watching = {
            _KEPT: self._rails.to_values(),
            _KEPT_BOUNDS: self._bounds.to_values(),
        }
        return await self._keeper.save({**extra, **watching})
