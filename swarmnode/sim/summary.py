"""Statistics of a study: pure, from round reports to the summary that reports and files show.

Three rewards, never confused: `local` (own fresh completions before any filter), `training_set`
(what was trained on; the paper sums this), `held_out` (unseen questions). Each is computed per task
and then averaged over tasks with equal weights; intervals.py says over what an interval is taken.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from swarmnode.sim.attacks.seen import Seen, seen
from swarmnode.sim.common_answers import alarms_first_seen, answers_of, loophole_first_seen
from swarmnode.sim.intervals import Estimate, Figure, Table, estimate
from swarmnode.types import RoundReport, SampledAnswers, TaskRewards

RewardName = Literal["local", "training_set", "held_out", "held_out_greedy"]
REWARDS: tuple[RewardName, ...] = ("local", "training_set", "held_out", "held_out_greedy")
LAST_SHARE = 0.1
"""The part of the rounds whose mean stands for the end of a run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One variant under one seed."""

    variant: str
    seed: int
    reports: Sequence[RoundReport]


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
    """The last tenth of the rounds, or the last evaluation; NaN if only the start has one."""
    end_by_task: Mapping[str, Mapping[RewardName, Estimate]]
    start_by_task: Mapping[str, Mapping[RewardName, Estimate]]
    held_out_ends: Mapping[int, Figure]
    """By seed, held-out success of the last evaluation by task and node; seeds without one lack."""
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
    start_answers: Mapping[str, SampledAnswers]
    """By task, the sampled answers of the first evaluation, pooled over nodes and seeds."""
    end_answers: Mapping[str, SampledAnswers]
    """Those of the last evaluation; empty if only the start has one, or none were kept."""
    loophole_seen: Mapping[str, int]
    """By task, the first round whose own answers made some node suspicious; other tasks lack."""
    alarms_seen: Mapping[str, int]
    """By guard-rail, the first round in which it complained at some node; others lack."""
    dropped: Mapping[str, int]
    """Everything dropped in all its runs, by reason."""
    attacked: Seen | None
    """What honest nodes showed of an attack; None where there was none."""


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
    by_node = [_by_node(run.reports) for run in runs]
    first = {reward: _first_window(reward, rounds) for reward in REWARDS}
    last = {reward: _last_window(reward, rounds) for reward in REWARDS}

    told = [report for run in runs for report in run.reports if report.round <= rounds]

    def estimated(figure: Callable[[_Nodes], Figure]) -> Estimate:
        return estimate([figure(nodes) for nodes in by_node])

    def at(window: _Window, reward: RewardName, task: str | None = None) -> Estimate:
        return estimated(lambda nodes: Figure(len(nodes), _table(nodes, window, reward, task)))

    def difference(one: tuple[_Window, RewardName], less: tuple[_Window, RewardName]) -> Estimate:
        return estimated(
            lambda nodes: Figure(len(nodes), _table(nodes, *one), _table(nodes, *less))
        )

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
        held_out_ends=_ends(runs, by_node, last["held_out"]),
        held_out_gain=difference((last["held_out"], "held_out"), (first["held_out"], "held_out")),
        selection_effect=difference((last["local"], "training_set"), (last["local"], "local")),
        cumulative_local=estimated(lambda nodes: Figure(len(nodes), _summed_local(nodes, rounds))),
        curves={reward: _curve(runs, reward, rounds) for reward in REWARDS},
        held_out_curves={task: _curve(runs, "held_out", rounds, task) for task in tasks},
        live_groups_trained=_mean(_live_groups(run.reports) for run in runs),
        start_answers=answers_of(_within(first["held_out"], by_node)),
        end_answers=answers_of(_within(last["held_out"], by_node)),
        loophole_seen=loophole_first_seen(told),
        alarms_seen=alarms_first_seen(told),
        dropped=_dropped(runs),
        attacked=seen(told),
    )


_Window = Callable[[Sequence[RoundReport]], Sequence[RoundReport]]
_Nodes = Sequence[Sequence[RoundReport]]
"""The reports of one run by node."""


def _by_node(reports: Sequence[RoundReport]) -> _Nodes:
    by_node: defaultdict[int, list[RoundReport]] = defaultdict(list)
    for report in reports:
        by_node[report.node].append(report)
    return [by_node[node] for node in sorted(by_node)]


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
        return [report for report in reports if report.round == last > 0]

    return last_evaluation


def _within(window: _Window, runs: Sequence[_Nodes]) -> Iterable[RoundReport]:
    return (report for nodes in runs for reports in nodes for report in window(reports))


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


def _table(nodes: _Nodes, window: _Window, reward: RewardName, task: str | None = None) -> Table:
    """Observations of a reward, one a node and round, of all tasks or of one."""
    table: dict[str, tuple[list[float], list[int]]] = {}
    for place, reports in enumerate(nodes):
        for report in window(reports):
            for name, value in _rewards(report, reward).by_task.items():
                if task is None or name == task:
                    sums, counts = table.setdefault(name, ([0.0] * len(nodes), [0] * len(nodes)))
                    sums[place] += value
                    counts[place] += 1
    return table


def _ends(runs: Sequence[Run], by_node: Sequence[_Nodes], window: _Window) -> Mapping[int, Figure]:
    ends = {
        run.seed: Figure(len(nodes), _table(nodes, window, "held_out"))
        for run, nodes in zip(runs, by_node, strict=True)
    }
    return {seed: figure for seed, figure in ends.items() if figure.table}


def _summed_local(nodes: _Nodes, rounds: int) -> Table:
    """One observation a node: its local reward, mean over a round's tasks, summed over rounds."""
    sums = [
        sum(report.local.mean for report in reports if 1 <= report.round <= rounds)
        for reports in nodes
    ]
    return {"all": (sums, [1] * len(nodes))}


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
