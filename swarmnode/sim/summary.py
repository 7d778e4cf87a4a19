"""Statistics of a study: pure, from round reports to the summary that reports and files show.

Three rewards, never confused: `local` (own fresh completions before any filter), `training_set`
(what was trained on; the paper sums this), `held_out` (unseen questions). Each is computed per task
and then averaged over tasks with equal weights. An interval is 95 %: by Student's t over seeds
where there are at least two, else a bootstrap over the nodes of the one seed, and says which. What
was not observed is NaN, and so are the ends of an interval over a single seed's single node.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from swarmnode.types import RoundReport, TaskRewards

RewardName = Literal["local", "training_set", "held_out", "held_out_greedy"]
REWARDS: tuple[RewardName, ...] = ("local", "training_set", "held_out", "held_out_greedy")
LAST_SHARE = 0.1
"""The part of the rounds whose mean stands for the end of a run."""
BOOTSTRAPS = 2000
STUDENT_T_95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""Two-sided 95 % quantiles for 1 to 20 degrees of freedom."""
NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class Run:
    """One variant under one seed."""

    variant: str
    seed: int
    reports: Sequence[RoundReport]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval; `over` says over what the interval was taken."""

    mean: float
    low: float
    high: float
    over: Literal["seeds", "nodes"]


@dataclass(frozen=True, slots=True)
class Curve:
    """A reward over the rounds: mean, lowest and highest of its members (seeds, or nodes)."""

    rounds: Sequence[int]
    mean: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


@dataclass(frozen=True, slots=True)
class Variant:
    """What came of one variant."""

    name: str
    seeds: Sequence[int]
    rounds: int
    """Rounds that every run of it has reached."""
    start: Mapping[RewardName, Estimate]
    """The first rounds, or the first evaluation."""
    end: Mapping[RewardName, Estimate]
    """The last tenth of the rounds, or the last evaluation."""
    end_by_task: Mapping[str, Mapping[RewardName, Estimate]]
    start_by_task: Mapping[str, Mapping[RewardName, Estimate]]
    held_out_gain: Estimate
    """Last minus first evaluation; NaN when only the start was evaluated."""
    selection_effect: Estimate
    """training_set minus local at the end: what choosing groups adds to the paper's figure."""
    cumulative_local: Estimate
    """Local reward summed over rounds, per node: the unit of the paper's figures."""
    curves: Mapping[RewardName, Curve]
    held_out_curves: Mapping[str, Curve]
    """Held-out success by task."""
    live_groups_trained: float
    """Mean per node and round."""
    dropped: Mapping[str, int]
    """Everything dropped in all its runs, by reason."""


def summarize(runs: Sequence[Run]) -> Sequence[Variant]:
    """Every variant, in the order of its first run; runs without a full round are left out."""
    by_variant: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if last_round(run.reports) >= 1:
            by_variant[run.variant].append(run)
    return [_summarize_variant(name, members) for name, members in by_variant.items()]


def last_round(reports: Sequence[RoundReport]) -> int:
    """The last round that every node has ended."""
    reached: defaultdict[int, int] = defaultdict(int)
    for report in reports:
        reached[report.node] = max(reached[report.node], report.round)
    return min(reached.values(), default=0)


def _summarize_variant(name: str, runs: Sequence[Run]) -> Variant:
    rounds = min(last_round(run.reports) for run in runs)
    tasks = sorted({task for run in runs for report in run.reports for task in _tasks(report)})
    first = {reward: _first_window(reward, rounds) for reward in REWARDS}
    last = {reward: _last_window(reward, rounds) for reward in REWARDS}

    def at(window: _Window, reward: RewardName, task: str | None = None) -> Estimate:
        return _estimate(runs, lambda reports: mean_reward(window(reports), reward, task))

    def gain(reports: Sequence[RoundReport]) -> float:
        after = last["held_out"](reports)
        if not any(report.round > 0 for report in after):
            return math.nan
        before = first["held_out"](reports)
        return mean_reward(after, "held_out") - mean_reward(before, "held_out")

    def effect(reports: Sequence[RoundReport]) -> float:
        window = last["local"](reports)
        return mean_reward(window, "training_set") - mean_reward(window, "local")

    return Variant(
        name=name,
        seeds=[run.seed for run in runs],
        rounds=rounds,
        start={reward: at(first[reward], reward) for reward in REWARDS},
        end={reward: at(last[reward], reward) for reward in REWARDS},
        start_by_task={
            task: {reward: at(first[reward], reward, task) for reward in REWARDS} for task in tasks
        },
        end_by_task={
            task: {reward: at(last[reward], reward, task) for reward in REWARDS} for task in tasks
        },
        held_out_gain=_estimate(runs, gain),
        selection_effect=_estimate(runs, effect),
        cumulative_local=_estimate(runs, lambda reports: _cumulative_local(reports, rounds)),
        curves={reward: _curve(runs, reward, rounds) for reward in REWARDS},
        held_out_curves={task: _curve(runs, "held_out", rounds, task) for task in tasks},
        live_groups_trained=_mean(_live_groups(run.reports) for run in runs),
        dropped=_dropped(runs),
    )


_Window = Callable[[Sequence[RoundReport]], Sequence[RoundReport]]


def _first_window(reward: RewardName, rounds: int) -> _Window:
    if reward.startswith("held_out"):
        return lambda reports: [report for report in reports if report.round == 0]
    span = max(1, round(rounds * LAST_SHARE))
    return lambda reports: [report for report in reports if 1 <= report.round <= span]


def _last_window(reward: RewardName, rounds: int) -> _Window:
    if not reward.startswith("held_out"):
        span = max(1, round(rounds * LAST_SHARE))
        return lambda reports: [r for r in reports if rounds - span < r.round <= rounds]

    def last_evaluation(reports: Sequence[RoundReport]) -> Sequence[RoundReport]:
        last = max((r.round for r in reports if r.evaluation and r.round <= rounds), default=0)
        return [report for report in reports if report.round == last]

    return last_evaluation


def _rewards(report: RoundReport, reward: RewardName) -> TaskRewards:
    match reward:
        case "local":
            return report.local
        case "training_set":
            return report.training_set
        case "held_out":
            return report.evaluation.held_out if report.evaluation else TaskRewards({})
        case "held_out_greedy":
            return report.evaluation.held_out_greedy if report.evaluation else TaskRewards({})


def _tasks(report: RoundReport) -> Iterable[str]:
    return {*report.local.by_task, *(report.evaluation.sampled if report.evaluation else {})}


def mean_reward(
    reports: Iterable[RoundReport], reward: RewardName, task: str | None = None
) -> float:
    """Mean per task over reports, then over tasks with equal weights; NaN where there is none."""
    by_task: defaultdict[str, list[float]] = defaultdict(list)
    for report in reports:
        for name, value in _rewards(report, reward).by_task.items():
            by_task[name].append(value)
    if task is not None:
        return _mean(by_task.get(task, ()))
    return _mean(_mean(values) for values in by_task.values())


def _cumulative_local(reports: Sequence[RoundReport], rounds: int) -> float:
    counted = [report for report in reports if 1 <= report.round <= rounds]
    return sum(report.local.mean for report in counted) / len({report.node for report in counted})


def _live_groups(reports: Sequence[RoundReport]) -> float:
    return _mean(
        report.metrics.get("mix/local_live_groups", 0.0)
        + report.metrics.get("mix/external_live_groups", 0.0)
        for report in reports
        if report.round > 0
    )


def _dropped(runs: Sequence[Run]) -> Mapping[str, int]:
    total: defaultdict[str, int] = defaultdict(int)
    for run in runs:
        for report in run.reports:
            for reason, count in report.dropped.items():
                total[reason] += count
    return dict(sorted(total.items()))


def _estimate(runs: Sequence[Run], figure: Callable[[Sequence[RoundReport]], float]) -> Estimate:
    values = [figure(run.reports) for run in runs]
    if len(values) == 1:
        low, high = _bootstrap(runs[0].reports, figure)
        return Estimate(values[0], low, high, "nodes")
    known = [value for value in values if not math.isnan(value)]
    half = _half_width(known)
    mean = _mean(known)
    return Estimate(mean, mean - half, mean + half, "seeds")


def _half_width(values: Sequence[float]) -> float:
    """Half of Student's 95 % interval of the mean; NaN below two values."""
    if len(values) < 2:
        return math.nan
    degrees = len(values) - 1
    quantile = STUDENT_T_95[degrees - 1] if degrees <= len(STUDENT_T_95) else NORMAL_95
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def _bootstrap(
    reports: Sequence[RoundReport], figure: Callable[[Sequence[RoundReport]], float]
) -> tuple[float, float]:
    """Percentiles of the mean over nodes, each node's figure being one observation."""
    by_node: defaultdict[int, list[RoundReport]] = defaultdict(list)
    for report in reports:
        by_node[report.node].append(report)
    figures = [value for value in map(figure, by_node.values()) if not math.isnan(value)]
    if len(figures) < 2:
        return math.nan, math.nan
    rng = random.Random(0)
    means = sorted(_mean(rng.choices(figures, k=len(figures))) for _ in range(BOOTSTRAPS))
    return means[round(0.025 * BOOTSTRAPS)], means[round(0.975 * BOOTSTRAPS) - 1]


def _curve(runs: Sequence[Run], reward: RewardName, rounds: int, task: str | None = None) -> Curve:
    """One point a round; for held-out success, one an evaluation."""
    members = [_by_round(run.reports) for run in runs]
    if len(runs) == 1:
        nodes = sorted({report.node for report in runs[0].reports})
        members = [_by_round([r for r in runs[0].reports if r.node == node]) for node in nodes]
    pooled = _by_round([report for run in runs for report in run.reports])
    points: list[tuple[int, float, float, float]] = []
    for number in sorted(number for number in pooled if number <= rounds):
        mean = mean_reward(pooled[number], reward, task)
        values = [mean_reward(member.get(number, ()), reward, task) for member in members]
        known = [value for value in values if not math.isnan(value)]
        if known:
            points.append((number, mean, min(known), max(known)))
    numbers, means, lows, highs = zip(*points, strict=True) if points else ((), (), (), ())
    return Curve(numbers, means, lows, highs)


def _by_round(reports: Iterable[RoundReport]) -> Mapping[int, Sequence[RoundReport]]:
    rounds: defaultdict[int, list[RoundReport]] = defaultdict(list)
    for report in reports:
        rounds[report.round].append(report)
    return rounds


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return statistics.fmean(known) if known else math.nan
