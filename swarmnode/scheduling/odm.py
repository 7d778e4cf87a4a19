"""`odm`: Online Data Mixing (arXiv 2312.02406), as its paper describes it and as its code does it.

Both pay a domain its loss, smooth what was paid, and keep an exploration share of
ε_t = min(1/K, sqrt(ln K / (K t))) for each domain (EXP3). They differ in the rest:

- `paper` (section 3): R_i ← α R_i + (1 - α) L_i / π_i, and
  π_i = (1 - K ε_t) exp(ε_{t-1} R_i) / Σ_j exp(ε_{t-1} R_j) + ε_t.
- `code`: R_i ← α R_i + (1 - α) exp(L_i), the smoothed perplexity without importance weights, and
  π_i = (1 - K ε_t) R_i / Σ_j R_j + ε_t.

The first `warmup_steps` (2000 in the code) have the given weights, and are learned from. Departure:
in the node the loss is replaced by what is learnable (`signal`), since high losses are hopeless
tasks there. exp(L) is cut at L = EXPONENT_LIMIT, which no language model's loss reaches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from swarmnode.scheduling.scheduler import Outcome, Signal, State, signal_of
from swarmnode.scheduling.simplex import mixed_with_equal, normalised, softmax

EXPONENT_LIMIT = 50.0


class Odm:
    """A bandit over domains that seeks high loss."""

    def __init__(
        self,
        warmup_weights: Sequence[float],
        *,
        form: Literal["paper", "code"],
        smoothing: float,
        warmup_steps: int,
        signal: Signal,
    ) -> None:
        """`smoothing` is α in [0, 1), 0.5 in the code. Raises ValueError for unusable weights."""
        self._warmup_weights = normalised(warmup_weights)
        self._form = form
        self._smoothing = smoothing
        self._warmup_steps = warmup_steps
        self._signal = signal
        self._rewards = [0.0] * len(warmup_weights)
        self._updates = 0

    def weights(self, state: State) -> Sequence[float]:
        """The given weights during the warm-up, then π."""
        if self._updates < max(1, self._warmup_steps):
            return self._warmup_weights
        if self._form == "paper":
            rate = exploration(self._updates, len(self._rewards))
            exploited = softmax([rate * reward for reward in self._rewards])
        elif any(self._rewards):
            exploited = normalised(self._rewards)
        else:
            exploited = self._warmup_weights
        return mixed_with_equal(exploited, exploration(self._updates + 1, len(self._rewards)))

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Smooth in what the domains that were seen are paid."""
        self._updates += 1
        for domain, paid in enumerate(signal_of(outcome, self._signal)):
            if paid is None:
                continue
            if self._form == "paper":
                reward = paid / max(outcome.weights[domain], 1e-6)
            else:
                reward = math.exp(min(paid, EXPONENT_LIMIT))
            old = self._rewards[domain]
            self._rewards[domain] = self._smoothing * old + (1.0 - self._smoothing) * reward
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Smoothed rewards, and how often they were."""
        return {"rewards": list(self._rewards), "updates": self._updates}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        self._rewards = list(saved["rewards"])
        self._updates = saved["updates"]


def exploration(step: int, domains: int) -> float:
    """ε_t = min(1/K, sqrt(ln K / (K t))), for t from 1 on."""
    return min(1.0 / domains, math.sqrt(math.log(domains) / (domains * step)))
