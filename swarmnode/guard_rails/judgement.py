"""From figures and their baselines to verdicts: pure, and the only place that knows limits.

A figure warns when it has passed its limit and has left its baseline by enough deviations: limits
alone would complain of tasks whose answers are grids of zeros, deviations alone of any steady
figure that moves at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from swarmnode.config.guard_rails import GuardRails
from swarmnode.guard_rails.baselines import Reading

Measured = Literal["above", "share", "factor", "size"]
"""How a figure is held against its limits: it is above; its share of the start is below; it is more
than a factor from the start; its absolute size is above."""

MEASURED: Mapping[str, Measured] = {
    "repetition": "above",
    "distinct": "share",
    "compression": "above",
    "whitespace": "share",
    "length": "factor",
    "truncated": "above",
    "entropy": "factor",
    "kl": "above",
    "reward_length": "size",
    "clipped": "above",
}
LEAST_RISE = 0.5
"""Of a limit: what was beyond it from the start has to rise by so much."""
LEAST_START = 0.02
"""A start below it is too near to nothing to tell a share of it."""


class Verdict(IntEnum):
    """How far a figure has gone."""

    NORMAL = 0
    WARN = 1
    CRITICAL = 2


@dataclass(frozen=True, slots=True)
class Judge:
    """The settings, ready to judge."""

    settings: GuardRails

    def verdict(self, figure: str, reading: Reading) -> Verdict:
        """Of a figure by name: `repetition`, `whitespace/latin`."""
        rail = figure.partition("/")[0]
        settings = self.settings
        if rail in settings.off:
            return Verdict.NORMAL
        warn, critical = getattr(settings, rail)
        if self._passed(rail, reading, critical, settings.critical_deviations):
            return Verdict.CRITICAL
        if self._passed(rail, reading, warn, settings.warn_deviations):
            return Verdict.WARN
        return Verdict.NORMAL

    def odd(self, figure: str, value: float, usual: Reading) -> bool:
        """Whether one round's figure is where it would warn if it stayed."""
        rail = figure.partition("/")[0]
        warn, _ = getattr(self.settings, rail)
        now = Reading(value, usual.start, usual.spread)
        return rail not in self.settings.off and beyond(MEASURED[rail], now, warn)

    def _passed(self, rail: str, reading: Reading, limit: float, deviations: float) -> bool:
        return reading.deviations >= deviations and beyond(MEASURED[rail], reading, limit)


def beyond(measured: Measured, reading: Reading, limit: float) -> bool:
    """Whether a figure has passed a limit, whatever its deviations."""
    match measured:
        case "above":
            return reading.recent >= max(limit, reading.start + LEAST_RISE * limit)
        case "size":
            return abs(reading.recent) >= max(limit, abs(reading.start) + LEAST_RISE * limit)
        case "share":
            return reading.start >= LEAST_START and reading.recent <= limit * reading.start
        case "factor":
            low, high = sorted((reading.recent, reading.start))
            return reading.start >= LEAST_START and high >= limit * max(low, 0.0)
