"""How often a policy is right: pass@k, and means over questions with their 95 % intervals. Pure.

Questions count equally within their task, and tasks count equally. What the chance of another
choice of questions may do is told by a bootstrap that draws each task's questions with replacement
(percentiles of BOOTSTRAPS draws; Efron, 1979). Two policies that answered the same questions are
compared question by question, so that what is hard for both cancels out; several answers to one
question are no independent evidence, so that it is questions that are counted. The same values
always give the same interval. Knows no policy, no scorer and no files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

BOOTSTRAPS = 2000
NORMAL_95 = 1.96
PSEUDO_QUESTIONS = 2.0
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
    return interval(_gaps(before, after))


def success_difference(a: Values, b: Values) -> Interval:
    """How much more often `a` is right than `b`, in [-1, 1], from each question's shares of right
    answers in [0, 1], questions paired; raises as `difference`.

    The mean is the plain one. The interval is that of Agresti and Min (Statistics in Medicine 24,
    2005, 729-740, the adjusted Wald interval for matched pairs), which half an answer in each of
    the four cells keeps from vanishing where the two never differed in what was asked. Departures,
    without which it would be theirs for one answer a question and one task: a question with several
    answers is one observation, its mean; tasks count equally and are independent, each with its
    part of the two pseudo-questions that the four halves are; and variances are divided by n - 1,
    for tasks of few questions.
    """
    differences = [np.asarray(each) for each in _gaps(b, a).values() if len(each)]
    if not differences:
        return Interval(math.nan, math.nan, math.nan)
    mean = float(np.mean([each.mean() for each in differences]))
    if all(len(each) < 2 for each in differences):
        return Interval(mean, math.nan, math.nan)
    pseudo = PSEUDO_QUESTIONS / len(differences)
    centres, variances = zip(*(_adjusted(each, pseudo) for each in differences), strict=True)
    centre, half = np.mean(centres), NORMAL_95 * math.sqrt(sum(variances)) / len(variances)
    return Interval(mean, max(-1.0, float(centre - half)), min(1.0, float(centre + half)))


def win_rate(of_difference: Interval) -> Interval:
    """The share of paired answers that the first one wins, ties counted half, in [0, 1].

    An answer is right or wrong, so that the share of wins less that of losses is the difference in
    success, and the win rate 1/2 + difference / 2: the same evidence in another unit.
    """
    return Interval(
        *(0.5 + each / 2 for each in (of_difference.mean, of_difference.low, of_difference.high))
    )


def _gaps(before: Values, after: Values) -> Values:
    """By how much each question's value is higher in `after`. Raises ValueError."""
    if before.keys() != after.keys():
        raise ValueError("the two are not about the same tasks")
    return {
        task: [now - then for then, now in zip(values, after[task], strict=True)]
        for task, values in before.items()
    }


def _adjusted(differences: np.ndarray, pseudo: float) -> tuple[float, float]:
    """Mean of one task's differences, and its variance, with so many pseudo-questions: half of
    them tied, a quarter won and a quarter lost."""
    count = len(differences) + pseudo
    centre = float(differences.sum()) / count
    squares = float(np.square(differences).sum()) + pseudo / 2
    variance = (squares - count * centre**2) / (count - 1)
    return centre, variance / count


def _drawn_means(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The mean of each draw of as many values, with replacement."""
    count = len(values)
    weights = rng.multinomial(count, np.full(count, 1 / count), size=BOOTSTRAPS)
    means: np.ndarray = weights @ values / count
    return means
