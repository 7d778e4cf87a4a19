"""Means with their 95 % intervals: pure, over tables of observations by task and node.

Observations are averaged per task, and tasks with equal weights. The interval is Student's t over
seeds where there are at least two, else the percentiles of a bootstrap that draws the nodes of the
one seed with replacement and averages anew. What was not observed is NaN, and so are the ends of an
interval over a single node. The same input always gives the same interval.
"""

from __future__ import annotations

import functools
import math
import random
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Literal

BOOTSTRAPS = 2000
STUDENT_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""Two-sided 95 % quantiles for 1 to 20 degrees of freedom."""
NORMAL_95 = 1.96

Table = Mapping[str, tuple[Sequence[float], Sequence[int]]]
"""By task: the sum of each node's observations, and their count, nodes in a fixed order."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval; `over` says over what the interval was taken."""

    mean: float
    low: float
    high: float
    over: Literal["seeds", "nodes"]


@dataclass(frozen=True, slots=True)
class Figure:
    """The mean of one table, less that of another if there is one, in one run."""

    nodes: int
    table: Table
    less: Table | None = None

    def value(self, weights: Sequence[int]) -> float:
        """With every node counted as often as its weight says; NaN without observations."""
        mean = pooled_mean(self.table, weights)
        return mean if self.less is None else mean - pooled_mean(self.less, weights)


def pooled_mean(table: Table, weights: Sequence[int]) -> float:
    """The mean per task, then over the tasks that were observed; NaN where there is none."""
    means = []
    for sums, counts in table.values():
        if count := sum(map(mul, counts, weights)):
            means.append(sum(map(mul, sums, weights)) / count)
    return sum(means) / len(means) if means else math.nan


def estimate(runs: Sequence[Figure]) -> Estimate:
    """The mean of a figure over runs, one a seed, with its interval."""
    values = [figure.value([1] * figure.nodes) for figure in runs]
    if len(values) == 1:
        low, high = _bootstrap(runs[0])
        return Estimate(values[0], low, high, "nodes")
    known = [value for value in values if not math.isnan(value)]
    mean = statistics.fmean(known) if known else math.nan
    half = _half_width(known)
    return Estimate(mean, mean - half, mean + half, "seeds")


def _half_width(values: Sequence[float]) -> float:
    """Half of Student's 95 % interval of the mean; NaN below two values."""
    if len(values) < 2:
        return math.nan
    degrees = len(values) - 1
    quantile = STUDENT_T_95[degrees - 1] if degrees <= len(STUDENT_T_95) else NORMAL_95
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def _bootstrap(figure: Figure) -> tuple[float, float]:
    if figure.nodes < 2:
        return math.nan, math.nan
    values = [figure.value(weights) for weights in _draws(figure.nodes)]
    known = sorted(value for value in values if not math.isnan(value))
    if not known:
        return math.nan, math.nan
    return known[round(0.025 * len(known))], known[max(0, round(0.975 * len(known)) - 1)]


@functools.lru_cache(maxsize=8)
def _draws(nodes: int) -> Sequence[Sequence[int]]:
    """How often each node comes up in every draw; the same for all figures, which keeps pairs."""
    rng = random.Random(0)
    draws = (Counter(rng.choices(range(nodes), k=nodes)) for _ in range(BOOTSTRAPS))
    return [[draw[node] for node in range(nodes)] for draw in draws]
