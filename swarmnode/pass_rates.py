"""How often a policy is right: pass@k, and means over questions with their 95 % intervals. Pure.

Questions count equally within their task, and tasks count equally. What the chance of another
choice of questions may do is told by a bootstrap that draws each task's questions with replacement
(percentiles of BOOTSTRAPS draws; Efron, 1979). Two policies that answered the same questions are
compared question by question, so that what is hard for both cancels out. The same values always
give the same interval. Knows no policy, no scorer and no files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

BOOTSTRAPS = 2000
_SEED = 0

Values = Mapping[str, Sequence[float]]
"""By task: one value a question, in a fixed order."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval; the ends are NaN where no task has two questions."""

    mean: float
    low: float
    high: float


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The chance that one of k answers is right, estimated from `right` right ones of `samples`.

    Unbiased for 1 ≤ k ≤ samples: 1 - C(n - c, k) / C(n, k) with n samples of which c are right
    (Chen et al. 2021, arXiv 2107.03374, equation 1). Raises ValueError for another k.
    """
    if not 1 <= k <= samples:
        raise ValueError(f"pass@{k} needs at least {k} answers, and there are {samples}")
    return 1.0 - math.comb(samples - right, k) / math.comb(samples, k)


def interval(values: Values) -> Interval:
    """The mean over questions, then over tasks with equal weights; NaN without values."""
    known = [np.asarray(each, dtype=np.float64) for each in values.values() if len(each)]
    if not known:
        return Interval(math.nan, math.nan, math.nan)
    mean = float(np.mean([each.mean() for each in known]))
    if all(len(each) < 2 for each in known):
        return Interval(mean, math.nan, math.nan)
    rng = np.random.default_rng(_SEED)
    drawn = np.mean([_drawn_means(each, rng) for each in known], axis=0)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Interval(mean, float(low), float(high))


def difference(before: Values, after: Values) -> Interval:
    """How much higher `after` is, the questions paired; positive where it is better.

    To draw questions and take both means anew is to draw their differences. Raises ValueError
    where the two are not about the same tasks and numbers of questions.
    """
    if before.keys() != after.keys():
        raise ValueError("the two are not about the same tasks")
    return interval(
        {
            task: [now - then for then, now in zip(values, after[task], strict=True)]
            for task, values in before.items()
        }
    )


def _drawn_means(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The mean of each draw of as many values, with replacement."""
    count = len(values)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=BOOTSTRAPS)
    means: np.ndarray = weights @ values / count
    return means
