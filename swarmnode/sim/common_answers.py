"""What the nodes of a variant answered: pure, pooled over their evaluations and rounds.

`swarmnode.rewards.common_answers` says what the figures of common answers mean, docs/guard-rails.md
those of the other guard-rails.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from swarmnode.rewards.common_answers import EXCESS_SEEN, pooled
from swarmnode.types import RoundReport, SampledAnswers

_EXCESS = "answers/common_excess/"
_ALARM = "guard/alarm/"


def answers_of(reports: Iterable[RoundReport]) -> Mapping[str, SampledAnswers]:
    """The sampled answers to unseen questions, by task, of all evaluations among the reports."""
    parts: defaultdict[str, list[SampledAnswers]] = defaultdict(list)
    for report in reports:
        for task, answers in (report.evaluation.answers if report.evaluation else {}).items():
            parts[task].append(answers)
    return {task: pooled(found) for task, found in sorted(parts.items())}


def loophole_first_seen(reports: Iterable[RoundReport]) -> Mapping[str, int]:
    """By task, the first round whose own answers made some node suspicious; other tasks lack."""
    first: dict[str, int] = {}
    for report in reports:
        for name, excess in report.metrics.items():
            if name.startswith(_EXCESS) and excess >= EXCESS_SEEN:
                task = name.removeprefix(_EXCESS)
                first[task] = min(report.round, first.get(task, report.round))
    return dict(sorted(first.items()))


def alarms_first_seen(reports: Iterable[RoundReport]) -> Mapping[str, int]:
    """By guard-rail, the first round in which it complained at some node; others lack."""
    first: dict[str, int] = {}
    for report in reports:
        for name in report.metrics:
            if name.startswith(_ALARM):
                rail = name.removeprefix(_ALARM)
                first[rail] = min(report.round, first.get(rail, report.round))
    return dict(sorted(first.items()))
