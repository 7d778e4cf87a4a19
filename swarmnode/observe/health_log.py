"""Health warnings in the log: each when it begins and when it is over, with the words of the rest.

Remembers which were told; one that comes and goes is told again after REPEAT_SECONDS at the least.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import structlog

from swarmnode.observe.facts import HealthWarning

REPEAT_SECONDS = 600.0

log = structlog.get_logger()


class HealthLog:
    """What the log was told of the health so far."""

    def __init__(self) -> None:
        self._told: dict[str, float] = {}
        """When each was told last, by code."""
        self._open: set[str] = set()
        """Those that were told and are not over."""

    def heard(self, warnings: Sequence[HealthWarning], now: float) -> None:
        """What applies now; `now` in seconds of any clock."""
        for each in warnings:
            last = self._told.get(each.code)
            if each.code in self._open or (last is not None and now - last < REPEAT_SECONDS):
                continue
            self._told[each.code] = now
            self._open.add(each.code)
            # Severities have the names of the levels.
            level = logging.getLevelName(each.severity.value.upper())
            log.log(level, "health", code=each.code, text=each.text, fix=each.fix)
        for code in sorted(self._open - {each.code for each in warnings}):
            self._open.discard(code)
            log.info("health is better", code=code)
