"""What the rows of a run come to. Pure.

Losses are in nats a token, which is a byte here; a perplexity is their exponential. The macro loss
counts every domain alike, the mixture's every domain by its static share.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from swarmnode.pretraining.folder import Row
from swarmnode.pretraining.trainer import PARTS


@dataclass(frozen=True, slots=True)
class Curves:
    """Validation over steps."""

    steps: Sequence[int]
    by_domain: Sequence[Sequence[float]]
    """A loss for each domain, one list a validation."""
    macro: Sequence[float]
    mixture: Sequence[float]


@dataclass(frozen=True, slots=True)
class Summary:
    """A run."""

    curves: Curves
    shares: Sequence[Sequence[float]]
    """Of every step, by domain: what the scheduler said."""
    last_shares: Sequence[float]
    """Means over the last tenth of the steps."""
    read: Sequence[int]
    """Sequences of each domain."""
    milliseconds: Mapping[str, float]
    """Median of a step, by part."""
    metrics: Mapping[str, float]
    """The scheduler's, of the last step."""

    @property
    def overhead(self) -> float:
        """What the scheduler costs, gradients included, over what the model and its data cost."""
        spent = self.milliseconds
        model = spent["model"] + spent["data"]
        return (spent["gradients"] + spent["scheduler"]) / model if model else math.nan


def curves_of(rows: Sequence[Row], static: Sequence[float]) -> Curves:
    """The validations of a run; `static` are the shares of the mixture's loss."""
    found = [(row.step, row.validation) for row in rows if row.validation is not None]
    return Curves(
        steps=[step for step, _ in found],
        by_domain=[losses for _, losses in found],
        macro=[math.fsum(losses) / len(losses) for _, losses in found],
        mixture=[math.fsum(a * b for a, b in zip(static, ls, strict=True)) for _, ls in found],
    )


def summarize(rows: Sequence[Row], static: Sequence[float]) -> Summary:
    """Everything that the report shows."""
    steps = [row for row in rows if row.step > 0]
    last = steps[-max(1, len(steps) // 10) :]
    domains = len(static)
    return Summary(
        curves=curves_of(rows, static),
        shares=[row.shares for row in steps],
        last_shares=[_mean([row.shares[i] for row in last]) for i in range(domains)],
        read=[sum(row.sequences[i] for row in steps) for i in range(domains)],
        milliseconds={
            part: 1000.0 * (statistics.median(row.seconds[part] for row in steps) if steps else 0.0)
            for part in PARTS
        },
        metrics=steps[-1].metrics if steps else {},
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan
