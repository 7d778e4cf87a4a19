"""Schedulers that learn nothing: `static` weights, `uniform` as their equal case, and drawn ones.

The last is a control arm of studies: a scheduler that learns has to beat weights drawn at random.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from swarmnode.scheduling.scheduler import Outcome, State
from swarmnode.scheduling.simplex import normalised


class Static:
    """The same weights for ever; equal ones are the scheduler of the swarm sampling paper."""

    def __init__(self, weights: Sequence[float]) -> None:
        """Any shares of which one is above 0. Raises ValueError."""
        self._weights = normalised(weights)

    def weights(self, state: State) -> Sequence[float]:
        """The weights it was made with, normalised."""
        return self._weights

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Nothing to learn."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Nothing to keep."""
        return {}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Nothing to take back."""


class Drawn:
    """New weights every step, uniform over the simplex (Dirichlet with concentrations of 1)."""

    def __init__(self, domains: int, rng: random.Random) -> None:
        self._domains = domains
        self._rng = rng

    def weights(self, state: State) -> Sequence[float]:
        """Exponential draws, normalised."""
        return normalised([self._rng.expovariate(1.0) for _ in range(self._domains)])

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Nothing to learn."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The generator's state."""
        version, words, following = self._rng.getstate()
        return {"rng": [version, list(words), following]}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        version, words, following = saved["rng"]
        self._rng.setstate((version, tuple(words), following))
