"""From the rounds of a run of the study of `split` to its row in docs/results/split.json. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict

from swarmnode.types import RoundReport
from tests.benchmarks.split_protocol import LAST, WARM_ROUNDS, Part, SplitRun


class Row(TypedDict):
    """One run; of several nodes the mean. None where there is nothing to be told."""

    part: Part
    arm: str
    seed: int
    seconds: float
    """From the end of a round to that of the next, median."""
    produce: float | None
    """Of it, under `sync`, medians."""
    learn: float | None
    held_out_start: float
    """Success in [0, 1]."""
    held_out: float
    """The mean of the last evaluations."""
    external_groups: float
    """Groups of peers a round, mean."""
    lag_mean: float | None
    """Versions, mean over rounds of the mean over groups."""
    lag_max: float | None
    age_seconds: float | None
    trainer_idle: float | None
    """At the end, in [0, 1]."""
    generators_idle: float | None
    stale: float | None
    """Of the generated groups, the share that was dropped for its lag or its age."""


def row_of(run: SplitRun, nodes: Sequence[Sequence[RoundReport]]) -> Row:
    """Everything that the page shows of a whole run; rounds from 0 on, by node."""
    counted = [reports[1 + WARM_ROUNDS :] for reports in nodes]
    split = "split/lag_mean" in counted[0][-1].metrics
    return Row(
        part=run.part,
        arm=run.arm,
        seed=run.seed,
        seconds=_mean([_interval(reports) for reports in counted]),
        produce=None if split else _median(counted, "seconds/produce"),
        learn=None if split else _median(counted, "seconds/learn"),
        held_out_start=_mean([_held_out(reports[:1]) for reports in nodes]),
        held_out=_mean([_held_out(reports[1:]) for reports in nodes]),
        external_groups=_averaged(counted, "mix/external_groups"),
        lag_mean=_averaged(counted, "split/lag_mean") if split else None,
        lag_max=max(one.metrics["split/lag_max"] for each in counted for one in each)
        if split
        else None,
        age_seconds=_averaged(counted, "split/age_seconds") if split else None,
        trainer_idle=_last(counted, "split/trainer_idle_share") if split else None,
        generators_idle=_last(counted, "split/generator_idle_share") if split else None,
        stale=_stale(counted) if split else None,
    )


def _interval(reports: Sequence[RoundReport]) -> float:
    ends = [report.clock_seconds for report in reports]
    return statistics.median(later - earlier for earlier, later in pairwise(ends))


def _held_out(reports: Sequence[RoundReport]) -> float:
    found = [each.evaluation.held_out.mean for each in reports if each.evaluation is not None]
    return _mean(found[-LAST:])


def _stale(nodes: Sequence[Sequence[RoundReport]]) -> float:
    ends = [reports[-1].metrics for reports in nodes]
    dropped = sum(end["split/dropped/lag"] + end["split/dropped/age"] for end in ends)
    return dropped / sum(end["split/generated_groups"] for end in ends)


def _median(nodes: Sequence[Sequence[RoundReport]], name: str) -> float:
    return statistics.median(report.metrics[name] for reports in nodes for report in reports)


def _averaged(nodes: Sequence[Sequence[RoundReport]], name: str) -> float:
    return _mean([report.metrics[name] for reports in nodes for report in reports])


def _last(nodes: Sequence[Sequence[RoundReport]], name: str) -> float:
    return _mean([reports[-1].metrics[name] for reports in nodes])


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else 0.0
