"""The statistics of the study "Does sharing help?": pure, over rows, one a run.

Runs are paired by seed, since arms of one seed share warm start and questions. The unit of
observation is the seed, not the node: nodes of a run train on one another's answers, and are not
independent. A value that is missing or NaN is refused, never skipped in silence; whoever can go on
without it leaves it out and says so. Knows no files, no settings and no layout.

Sources: Student (1908) for the interval and the test of paired differences; Holm (1979), "A simple
sequentially rejective multiple test procedure", for the adjusted p values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from scipy import stats

Stage = Literal["development", "main", "mixes", "long", "loophole"]
COMPARABLE: frozenset[Stage] = frozenset({"main", "mixes"})
"""Stages that differ in nothing but the arms they hold, so that arms may be compared across."""
CONFIDENCE = 0.95


class StartEnd(TypedDict):
    """A figure before the first round, and its mean over the last tenth of the rounds."""

    start: float
    end: float


class CommonAnswers(TypedDict):
    """The held-out answers of all nodes to one task, at the start or over the last tenth.

    `right` counts right answers, `share` is the part of them that the four commonest right texts
    make up (None where too few were right), `expected` the same part among the references of these
    questions. `answers` are at most ten of (text, count, count of right ones), commonest first.
    """

    right: int
    share: float | None
    expected: float | None
    answers: Sequence[tuple[str, int, int]]


class CommonStartEnd(TypedDict):
    """The commonest answers before and after training."""

    start: CommonAnswers
    end: CommonAnswers


class RunCurve(TypedDict):
    """One point an evaluation; `local` and `training_set` are means since the point before.

    The first entries of those two are None: nothing lies before them.
    """

    rounds: Sequence[int]
    held_out: Sequence[float]
    local: Sequence[float | None]
    training_set: Sequence[float | None]


class Row(TypedDict):
    """One run, all that the page shows of it. Successes are in [0, 1], means over nodes.

    `own_tasks` is held-out success on the tasks that a node's own warm start taught, `other_tasks`
    on the rest. `local_end` and `training_set_end` are means over the last tenth. `questions` and
    the two live counts are means per node and round; tokens and steps are totals per node.
    """

    arm: str
    stage: Stage
    learning_rate: float
    seed: int
    rounds: int
    held_out: StartEnd
    greedy: StartEnd
    own_tasks: StartEnd
    other_tasks: StartEnd
    entropy: StartEnd
    by_task: Mapping[str, StartEnd]
    local_end: float
    training_set_end: float
    questions: float
    live_own: float
    live_external: float
    tokens_generated: float
    tokens_trained: float
    steps: float
    common: Mapping[str, CommonStartEnd]
    loophole_seen: Mapping[str, int]
    curve: RunCurve


Figure = Callable[[Row], float]
"""What is read off a run."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds, its two-sided 95 % t-interval, and p of the test against zero.

    `low`, `high` and `p` are NaN below two values, `mean` too below one.
    """

    mean: float
    low: float
    high: float
    p: float
    count: int


@dataclass(frozen=True, slots=True)
class RateChoice:
    """The learning rate of an arm; `at_edge` says that the best rate may lie outside the grid."""

    rate: float
    at_edge: bool
    means: Mapping[float, float]
    """By rate: held-out success at the end, mean over the development seeds."""


def held_out_end(row: Row) -> float:
    """The study's primary figure."""
    return row["held_out"]["end"]


def held_out_gain(row: Row) -> float:
    """What a run added to its warm start."""
    return row["held_out"]["end"] - row["held_out"]["start"]


def estimate(values: Sequence[float]) -> Estimate:
    """Student's t for the mean of `values`, one a seed; ValueError for a value that is not finite.

    With n values, mean m and standard deviation s (n - 1 in the denominator): the interval is
    m ± q·s/√n, q the 97.5 % quantile of t with n - 1 degrees of freedom, and
    p = 2·P(T > |m|·√n/s). Over paired differences this is the paired t-test. Where all values are
    equal the interval is that value, and p is 1 if it is zero, else 0.
    """
    if not all(map(math.isfinite, values)):
        raise ValueError(f"a mean over seeds needs finite values, not {list(values)}")
    count = len(values)
    if count < 2:
        mean = values[0] if values else math.nan
        return Estimate(mean, math.nan, math.nan, math.nan, count)
    mean = statistics.fmean(values)
    error = statistics.stdev(values) / math.sqrt(count)
    if error == 0:
        return Estimate(mean, mean, mean, float(mean == 0), count)
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * error
    p = 2 * float(stats.t.sf(abs(mean) / error, count - 1))
    return Estimate(mean, mean - half, mean + half, p, count)


def by_seed(rows: Iterable[Row]) -> dict[int, Row]:
    """Runs of one arm at one stage and rate, by seed, in the order of the seeds.

    ValueError where a seed comes twice, or where the runs differ in more than the seed.
    """
    ordered = sorted(rows, key=lambda row: row["seed"])
    kinds = {(row["arm"], row["stage"], row["learning_rate"], row["rounds"]) for row in ordered}
    if len(kinds) > 1:
        raise ValueError(f"runs that differ in more than the seed: {sorted(kinds)}")
    found: dict[int, Row] = {}
    for row in ordered:
        if row["seed"] in found:
            raise ValueError(f"{_named(row)}: seed {row['seed']} comes twice")
        found[row["seed"]] = row
    return found


def paired_differences(
    rows: Iterable[Row], reference: Iterable[Row], figure: Figure = held_out_end
) -> dict[int, float]:
    """By seed: the figure in `rows`, less that in `reference`; both hold one arm each.

    ValueError unless both hold the same seeds, at equal numbers of rounds, in one stage or in two
    COMPARABLE ones, and where a figure is not finite.
    """
    runs, others = by_seed(rows), by_seed(reference)
    if runs.keys() != others.keys():
        first, second = (_names(each.values()) for each in (runs, others))
        raise ValueError(
            f"only equal seeds can be paired: {first} has {list(runs)}, {second} {list(others)}"
        )
    return {seed: _difference(row, others[seed], figure) for seed, row in runs.items()}


def compare(
    rows: Iterable[Row], reference: Iterable[Row], figure: Figure = held_out_end
) -> Estimate:
    """Mean paired difference over seeds with interval and p; raises as `paired_differences`."""
    return estimate(list(paired_differences(rows, reference, figure).values()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values of one family, in the order given.

    With p sorted ascending, p(1) to p(m): adjusted p(i) = max over j ≤ i of
    min(1, (m - j + 1)·p(j)). A NaN, a comparison that could not be made, stays NaN, but counts in
    m: a study that is half run must not look more certain than the whole.
    """
    if any(p < 0 or p > 1 for p in p_values):
        raise ValueError(f"p values lie in [0, 1], unlike {list(p_values)}")
    adjusted = [math.nan] * len(p_values)
    known = [place for place, p in enumerate(p_values) if not math.isnan(p)]
    highest = 0.0
    for rank, place in enumerate(sorted(known, key=lambda place: p_values[place])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def choose_rate(
    rows: Iterable[Row], arm: str, rates: Sequence[float], seeds: Sequence[int]
) -> RateChoice:
    """The rate with the highest held-out success at the end, mean over the development seeds.

    The smaller of two that are equally good. ValueError unless every rate has a run with a finite
    figure of exactly these seeds.
    """
    runs = [row for row in rows if row["stage"] == "development" and row["arm"] == arm]
    means = {}
    for rate in sorted(rates):
        found = by_seed(row for row in runs if row["learning_rate"] == rate)
        if sorted(found) != sorted(seeds):
            raise ValueError(f"{arm} at rate {rate:g}: seeds {list(found)}, not {list(seeds)}")
        means[rate] = estimate([held_out_end(row) for row in found.values()]).mean
    if not means or not seeds:
        raise ValueError(f"{arm}: no rates or no seeds to choose from")
    best = max(means, key=lambda rate: (means[rate], -rate))
    at_edge = len(means) > 1 and best in (min(means), max(means))
    return RateChoice(best, at_edge, means)


def _difference(row: Row, other: Row, figure: Figure) -> float:
    same_stage = row["stage"] == other["stage"] or {row["stage"], other["stage"]} <= COMPARABLE
    if not same_stage or row["rounds"] != other["rounds"]:
        raise ValueError(
            f"cannot compare {_named(row)} over {row['rounds']} rounds "
            f"with {_named(other)} over {other['rounds']}"
        )
    difference = figure(row) - figure(other)
    if not math.isfinite(difference):
        raise ValueError(
            f"seed {row['seed']}: a figure is missing in {_named(row)} or {_named(other)}"
        )
    return difference


def _named(row: Row) -> str:
    return f"{row['arm']} ({row['stage']})"


def _names(rows: Iterable[Row]) -> str:
    return " and ".join(sorted({_named(row) for row in rows})) or "nothing"
