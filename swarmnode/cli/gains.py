"""What a training run has brought, in one line: held-out success at its start and now. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from swarmnode.observe.words import counted
from swarmnode.pass_rates import Interval, Values, difference, interval
from swarmnode.types import Evaluation, RoundReport


def gain_line(reports: Iterable[RoundReport]) -> str:
    """The newest evaluation beside the first one that asked the same questions."""
    evaluated = sorted(
        ((each.round, each.evaluation) for each in reports if each.evaluation is not None),
        key=lambda pair: pair[0],
    )
    if not evaluated:
        return "held-out   never looked at"
    last, newest = evaluated[-1]
    asked = _asked(newest)
    first, oldest = next(pair for pair in evaluated if _asked(pair[1]) == asked)
    questions = f"{counted(sum(asked.values()), 'question')} of {counted(len(asked), 'task')}"
    now = interval(values_of(newest.sampled))
    if first == last:
        return f"held-out   {figure(now.mean)} in round {last}, {questions}"
    change = difference(values_of(oldest.sampled), values_of(newest.sampled))
    before = interval(values_of(oldest.sampled))
    return (
        f"held-out   {figure(before.mean)} → {figure(now.mean)} ({change_in_words(change)}), "
        f"round {first} to {last}, {questions}"
    )


def values_of(marks: Mapping[str, str]) -> Values:
    """1.0 for each success, 0.0 for each failure."""
    return {task: [float(mark) for mark in each] for task, each in marks.items()}


def change_in_words(change: Interval) -> str:
    """A difference with its interval."""
    if math.isnan(change.low):
        return f"{change.mean:+.3f}, too few questions for an interval"
    return f"{change.mean:+.3f}, 95 % interval {change.low:+.3f} to {change.high:+.3f}"


def figure(value: float) -> str:
    """A rate as it is shown; a dash for one that is not known."""
    return "-" if math.isnan(value) else f"{value:.3f}"


def _asked(evaluation: Evaluation) -> Mapping[str, int]:
    """How many questions of each task."""
    return {task: len(marks) for task, marks in evaluation.sampled.items()}
