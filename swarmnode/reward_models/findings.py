"""What a reward model is worth on what it never saw, and whether it likes short or long answers.

Pure. Accuracy is that of held-out comparisons, per prompt and then over prompts, with Wilson's
interval (1927) for so many prompts: the comparisons of a prompt aren't independent, and its mean
varies less than a single decision, so the interval is wide rather than narrow. Length bias: the
correlation of score and length (Pearson, with Fisher's interval), and how often the model prefers
the shorter of two beside how often the data does: a model that goes further than its data has
learned length for quality.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from swarmnode.pass_rates import Interval
from swarmnode.reward_models.comparisons import Comparison

_NORMAL_95 = 1.96
BIASED = 0.3
"""A correlation of score and length whose interval lies beyond this, on either side, is said."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A held-out comparison with the model's scores; 0 for an opponent of strength 0."""

    comparison: Comparison
    better: float
    worse: float


@dataclass(frozen=True, slots=True)
class Findings:
    """What is known of a reward model."""

    accuracy: Interval
    """Of held-out comparisons, the share that it decides as people did; a tie counts half."""
    prompts: int
    comparisons: int
    length_correlation: Interval
    """Of score and length in characters over held-out completions; NaN with equal ones."""
    model_prefers_shorter: float
    """Share of the held-out pairs of different lengths; NaN without any."""
    data_prefers_shorter: float

    @property
    def warning(self) -> str:
        """What to look out for, in one line; empty where nothing stands out."""
        low, high = self.length_correlation.low, self.length_correlation.high
        if low > BIASED or high < -BIASED:
            liked = "long" if low > 0 else "short"
            return (
                f"it likes {liked} answers; a policy would find that out: pay for a length as well "
                "(rewards.channels.length.weight), or balance the data"
            )
        if self.accuracy.low <= 0.5:
            return "it is not shown to be better than a coin; give it more data"
        return ""

    def as_json(self) -> dict[str, Any]:
        """As plain values, None for what is NaN."""
        told = asdict(self)
        for name in ("accuracy", "length_correlation"):
            told[name] = {key: _known(value) for key, value in told[name].items()}
        return {
            name: _known(value) if isinstance(value, float) else value
            for name, value in told.items()
        }


def findings(judged: Sequence[Judged]) -> Findings:
    """From held-out comparisons, at least one."""
    right: dict[str, list[float]] = defaultdict(list)
    lengths: dict[tuple[str, str], tuple[int, float]] = {}
    model, data = [], []
    for one in judged:
        said = one.comparison
        right[said.prompt].append(_above(one.better, one.worse))
        for text, score in ((said.better, one.better), (said.worse, one.worse)):
            if text is not None:
                lengths[said.prompt, text] = (len(text), score)
        if said.better is not None and said.worse is not None:
            shorter = len(said.better) - len(said.worse)
            if shorter:
                data.append(float(shorter < 0))
                liked = _above(one.better, one.worse)
                model.append(liked if shorter < 0 else 1.0 - liked)
    return Findings(
        accuracy=wilson([statistics.fmean(each) for each in right.values()]),
        prompts=len(right),
        comparisons=len(judged),
        length_correlation=correlation(list(lengths.values())),
        model_prefers_shorter=statistics.fmean(model) if model else math.nan,
        data_prefers_shorter=statistics.fmean(data) if data else math.nan,
    )


def wilson(shares: Sequence[float]) -> Interval:
    """The mean of numbers in [0, 1], at least one, with Wilson's 95 % interval."""
    mean, count, square = statistics.fmean(shares), len(shares), _NORMAL_95**2
    middle = (mean + square / (2 * count)) / (1 + square / count)
    spread = math.sqrt(mean * (1 - mean) / count + square / (4 * count**2))
    half = _NORMAL_95 * spread / (1 + square / count)
    return Interval(mean, max(0.0, middle - half), min(1.0, middle + half))


def correlation(pairs: Sequence[tuple[float, float]]) -> Interval:
    """Pearson's r with Fisher's 95 % interval; NaN where one side is constant or pairs are few."""
    nothing = Interval(math.nan, math.nan, math.nan)
    if len(pairs) < 4:
        return nothing
    try:
        found = statistics.correlation(*zip(*pairs, strict=True))
    except statistics.StatisticsError:
        return nothing
    found = max(-1.0, min(1.0, found))
    if abs(found) == 1.0:
        return Interval(found, found, found)
    middle, half = math.atanh(found), _NORMAL_95 / math.sqrt(len(pairs) - 3)
    return Interval(found, math.tanh(middle - half), math.tanh(middle + half))


def _above(one: float, other: float) -> float:
    return 0.5 if one == other else float(one > other)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
