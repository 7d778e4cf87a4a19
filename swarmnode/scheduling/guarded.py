"""What every scheduler runs in: a least share for each domain, and nothing non-finite in or out.

A scheduler whose weights can't be used is overruled by the last good ones, equal ones at first,
and that is counted: a step is never lost to its scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from swarmnode.scheduling.scheduler import Outcome, Scheduler, State, finite
from swarmnode.scheduling.simplex import equal, is_simplex, mixed_with_equal


class Guarded:
    """A scheduler under guard; itself a scheduler."""

    def __init__(self, scheduler: Scheduler, domains: int, minimum_share: float) -> None:
        """`minimum_share` is at most 1 / `domains`, which makes all shares equal."""
        self._scheduler = scheduler
        self._domains = domains
        self._minimum_share = minimum_share
        self._last_good: Sequence[float] = equal(domains)
        self._overruled = 0
        self._non_finite = 0

    def weights(self, state: State) -> Sequence[float]:
        """The scheduler's weights mixed with equal ones, so that no share is below the least."""
        chosen = tuple(self._scheduler.weights(state))
        if is_simplex(chosen, self._domains):
            self._last_good = chosen
        else:
            self._overruled += 1
        return mixed_with_equal(self._last_good, self._minimum_share)

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Pass on what is finite."""
        cleaned, gone = finite(outcome)
        self._non_finite += gone
        return {
            **self._scheduler.update(cleaned),
            "scheduler/non_finite": float(self._non_finite),
            "scheduler/overruled": float(self._overruled),
        }

    def state_dict(self) -> dict[str, Any]:
        """The scheduler's, and the guard's own."""
        return {
            "scheduler": self._scheduler.state_dict(),
            "last_good": list(self._last_good),
            "overruled": self._overruled,
            "non_finite": self._non_finite,
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        self._scheduler.load_state_dict(saved["scheduler"])
        self._last_good = tuple(saved["last_good"])
        self._overruled = saved["overruled"]
        self._non_finite = saved["non_finite"]
