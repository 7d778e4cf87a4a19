"""How much learning a domain helps the others, from inner products of the domains' gradients. Pure.

Products come as a K × K table, ⟨g_i, g_j⟩ over the selected layers (agent/gradients.py measures
them). A step rarely shows all domains, so that pairs it did not show keep what was known before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from swarmnode.scheduling.scheduler import ByDomain

AlignmentForm = Literal["raw", "norm", "cosine", "zscore"]

Table = Sequence[Sequence[float]]
"""K rows of K products."""

CLIP_ZSCORE = 3.0


class Products:
    """The products known so far: each a moving average over the steps that showed its pair."""

    def __init__(self, domains: int, memory: float) -> None:
        """`memory` in [0, 1) is the share of the old value in a new one; 0 keeps the last."""
        self._table: list[list[float | None]] = [[None] * domains for _ in range(domains)]
        self._memory = memory

    def take(self, shown: Sequence[ByDomain]) -> None:
        """Take in a step's products; an empty table shows none."""
        for row, new in zip(self._table, shown, strict=False):
            for other, product in enumerate(new):
                old = row[other]
                if product is not None:
                    row[other] = (
                        product
                        if old is None
                        else self._memory * old + (1.0 - self._memory) * product
                    )

    @property
    def table(self) -> Table | None:
        """All products; those of pairs never shown are 0. None before any was."""
        if all(product is None for row in self._table for product in row):
            return None
        return [[product or 0.0 for product in row] for row in self._table]

    def to_values(self) -> list[list[float | None]]:
        """For a checkpoint."""
        return [list(row) for row in self._table]

    def load_values(self, values: Sequence[Sequence[float | None]]) -> None:
        """Take back what `to_values` gave."""
        self._table = [list(row) for row in values]


def alignments(products: Table, form: AlignmentForm) -> list[float]:
    """By domain, ⟨g_i, Σ_{j≠i} g_j⟩ in one of four forms.

    raw: as in HDS (arXiv 2606.24133); shrinks with the squared gradient over training.
    norm: divided by the mean norm of the g_j, as AC-ODM (arXiv 2505.23878) has it.
    cosine: divided by ‖g_i‖ ‖Σ_{j≠i} g_j‖, so in [-1, 1] whatever the scale of losses.
    zscore: `norm`, then standardised over the domains and cut at ±3, as HDS's code does; its mean
    over domains is 0 whatever was done, so that it must never be averaged with equal weights.
    """
    plain = [math.fsum(row) - row[i] for i, row in enumerate(products)]
    match form:
        case "raw":
            return plain
        case "cosine":
            return [
                _ratio(value, norm(products, i) * _norm_of_others(products, i))
                for i, value in enumerate(plain)
            ]
        case "norm":
            return by_mean_norm(plain, products)
        case "zscore":
            return standardised(by_mean_norm(plain, products))


def by_mean_norm(values: Sequence[float], products: Table) -> list[float]:
    """The values over the mean gradient norm of the domains."""
    mean = math.fsum(norm(products, i) for i in range(len(products))) / len(products)
    return [_ratio(value, mean) for value in values]


def norm(products: Table, domain: int) -> float:
    """‖g_i‖."""
    return math.sqrt(max(0.0, products[domain][domain]))


def standardised(values: Sequence[float]) -> list[float]:
    """(x - mean) / deviation over the domains, cut at ±3; zeros where they don't differ."""
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    scaled = (_ratio(value - mean, deviation) for value in values)
    return [min(CLIP_ZSCORE, max(-CLIP_ZSCORE, value)) for value in scaled]


def _norm_of_others(products: Table, domain: int) -> float:
    others = [j for j in range(len(products)) if j != domain]
    squared = math.fsum(products[j][k] for j in others for k in others)
    return math.sqrt(max(0.0, squared))


def _ratio(value: float, scale: float) -> float:
    return value / scale if scale > 1e-12 else 0.0
