"""`reward-softmax`: the three rewards of HDS, followed without an agent.

Each domain's weighted reward is smoothed, standardised over the domains, and becomes a share by
p_i = static_i exp(z_i / temperature), normalised. A control: what `hds` gains over it is gained by
looking ahead and by exploring, not by the rewards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from swarmnode.config.scheduling import Scheduling
from swarmnode.scheduling.alignment import standardised
from swarmnode.scheduling.rewards import Rewards
from swarmnode.scheduling.scheduler import Outcome, State
from swarmnode.scheduling.simplex import equal, mixed_with_equal, normalised, softmax


class RewardSoftmax:
    """Shares that rise with a domain's own reward of late."""

    def __init__(self, settings: Scheduling, static_weights: Sequence[float]) -> None:
        """Raises ValueError for weights that are no shares."""
        domains = len(static_weights)
        prior = static_weights if settings.hds.start_at_static else equal(domains)
        self._logits = [math.log(p) for p in mixed_with_equal(normalised(prior), 1e-3)]
        self._temperature = settings.softmax_temperature
        self._memory = settings.softmax_memory
        self._rewards = Rewards(settings.hds, domains)
        self._smoothed: list[float] | None = None
        self._state: State | None = None

    def weights(self, state: State) -> Sequence[float]:
        """p; the static shares before the first step."""
        self._state = state
        if self._smoothed is None:
            return softmax(self._logits)
        raised = standardised(self._smoothed)
        return softmax(
            [
                logit + each / self._temperature
                for logit, each in zip(self._logits, raised, strict=True)
            ]
        )

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Smooth in the step's rewards. Raises RuntimeError before the first `weights`."""
        if self._state is None:
            raise RuntimeError("update without weights before it")
        reward = self._rewards.take(self._state, outcome)
        old = self._smoothed or reward.by_domain
        kept = self._memory
        self._smoothed = [
            kept * before + (1.0 - kept) * new
            for before, new in zip(old, reward.by_domain, strict=True)
        ]
        return reward.metrics

    def state_dict(self) -> dict[str, Any]:
        """What was smoothed, and what the rewards remember."""
        return {
            "smoothed": None if self._smoothed is None else list(self._smoothed),
            "rewards": self._rewards.state_dict(),
            "state": None if self._state is None else self._state.to_values(),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        self._smoothed = None if saved["smoothed"] is None else list(saved["smoothed"])
        self._rewards.load_state_dict(saved["rewards"])
        self._state = None if saved["state"] is None else State.from_values(saved["state"])
