"""`doge`: alignment by mirror descent, without an agent: the cheap control for HDS.

DoGE (arXiv 2310.15393, section 3.2): W_i = ⟨g_i, Σ_j g_j⟩, and
α_i ← α_i exp(η W_i / μ) / Σ_k α_k exp(η W_k / μ). Departures, after the implementation in Aioli
(arXiv 2411.05735): W_i is divided by the domains' mean gradient norm and cut to [0, 5], so that
one step size suits all of training; pairs that a step did not show keep their last product. The
step size here is η / μ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from swarmnode.scheduling.alignment import Products, by_mean_norm
from swarmnode.scheduling.scheduler import Outcome, State
from swarmnode.scheduling.simplex import normalised, softmax

SCORE_LIMIT = 5.0


class Doge:
    """Mirror descent on the simplex."""

    def __init__(self, first_weights: Sequence[float], *, step_size: float, memory: float) -> None:
        """`memory` is that of Products. Raises ValueError unless all first weights are above 0."""
        if min(first_weights) <= 0.0:
            raise ValueError("mirror descent needs first weights above 0: it never leaves 0")
        self._logits = [math.log(share) for share in normalised(first_weights)]
        self._step_size = step_size
        self._products = Products(len(first_weights), memory)

    def weights(self, state: State) -> Sequence[float]:
        """α."""
        return softmax(self._logits)

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """One step up the alignments."""
        self._products.take(outcome.gradient_products)
        table = self._products.table
        if table is None:
            return {}
        scores = by_mean_norm([math.fsum(row) for row in table], table)
        self._logits = [
            logit + self._step_size * min(SCORE_LIMIT, max(0.0, score))
            for logit, score in zip(self._logits, scores, strict=True)
        ]
        # The softmax doesn't see a shift; without it the logits would grow for ever.
        highest = max(self._logits)
        self._logits = [logit - highest for logit in self._logits]
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Logits and products."""
        return {"logits": list(self._logits), "products": self._products.to_values()}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        self._logits = list(saved["logits"])
        self._products.load_values(saved["products"])
