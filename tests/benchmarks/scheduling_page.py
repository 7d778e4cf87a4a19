"""The tables of docs/results/scheduling.md, from the rows of the runs. Pure text."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

from tests.benchmarks.scheduling_protocol import (
    ALONE,
    ALONE_PAIRS,
    ARMS,
    BY_STAGE,
    PRIMARY,
    REFERENCE,
    SECOND,
    SECONDARY,
    TASKS,
    seeds_of,
)
from tests.benchmarks.scheduling_rows import Row, Runs, compared, end_of, runs_by_arm
from tests.benchmarks.sharing_markdown import (
    UNKNOWN,
    arrow,
    decimal,
    p_value,
    percent,
    points,
    table,
)
from tests.benchmarks.sharing_statistics import Estimate, estimate, holm
from tests.benchmarks.study_arms import StudyArm

NOT_RUN = "Not run."


def render(rows: Sequence[Row]) -> Mapping[str, str]:
    """Every block of the page by its name."""
    runs = runs_by_arm(rows, "main", "second", "alone")
    return {
        "arms": arms(),
        "answer": answer(runs),
        "held-out": held_out(runs),
        "second": second(runs),
        "alone": alone(runs),
        "tasks": _of_arms(runs, tasks),
        "asked": _of_arms(runs, asked),
        "steering": _of_arms({name: runs[name] for name in runs if "steered" in name}, steering),
        "groups": _of_arms(runs, groups),
        "development": development(rows),
    }


def arms() -> str:
    """All arms with what is tried for them."""
    lines = [
        [stage, arm.name, arm.description, _settings(arm), _tried(arm)]
        for stage, of_stage in BY_STAGE.items()
        for arm in of_stage
    ]
    head = ("stage", "arm", "what it is", "settings of scheduling", "tried in development")
    return table(head, lines)


def answer(runs: Runs) -> str:
    """The primary comparisons, which are one family."""
    return f"{_comparisons(runs, PRIMARY, adjusted=True)}\n\n{_caption(runs, ARMS)}"


def second(runs: Runs) -> str:
    """The comparisons beside."""
    return f"{_comparisons(runs, SECONDARY, adjusted=False)}\n\n{_caption(runs, SECOND)}"


def alone(runs: Runs) -> str:
    """The comparisons without peers."""
    return f"{_comparisons(runs, ALONE_PAIRS, adjusted=False)}\n\n{_caption(runs, ALONE)}"


def _comparisons(runs: Runs, pairs: Sequence[tuple[str, str]], *, adjusted: bool) -> str:
    found = [compared(runs, arm, other) for arm, other in pairs]
    p_values = holm([each.p for each in found]) if adjusted else [each.p for each in found]
    lines = [
        [f"{arm} less {other}", str(each.count), _shown(each), p_value(p)]
        for (arm, other), each, p in zip(pairs, found, p_values, strict=True)
    ]
    named = "p, Holm" if adjusted else "p"
    return table(("comparison", "seeds", "held-out success, points", named), lines)


def _caption(runs: Runs, planned: Sequence[StudyArm]) -> str:
    """What is missing of it."""
    missing = [
        f"{arm.name} has {len(runs.get(arm.name, {}))} of {len(seeds_of(arm))}"
        for arm in planned
        if len(runs.get(arm.name, {})) < len(seeds_of(arm))
    ]
    if len(missing) == len(planned) and not any(arm.name in runs for arm in planned):
        return NOT_RUN
    return f"Seeds that are missing: {', '.join(missing)}." if missing else "All seeds were run."


def held_out(runs: Runs) -> str:
    """Held-out success of every arm, and less that of the reference."""

    def line(name: str, rows: Sequence[Row]) -> Sequence[str]:
        gained = estimate([end_of(row) - row["held_out"]["start"] for row in rows])
        against = UNKNOWN if name == REFERENCE else _shown(compared(runs, name, REFERENCE))
        greedy = [row["greedy"] for row in rows]
        return (
            str(len(rows)),
            arrow([row["held_out"]["start"] for row in rows], [end_of(row) for row in rows]),
            _shown(gained),
            against,
            arrow([each["start"] for each in greedy], [each["end"] for each in greedy]),
        )

    head = ("seeds", "start → end, %", "gain, points", f"less {REFERENCE}", "greedy, %")
    return _by_arm(runs, head, line)


def tasks(runs: Runs) -> str:
    """Held-out success by task at the end, in percent."""
    return _by_task(runs, lambda row, task: row["by_task"][task]["end"])


def asked(runs: Runs) -> str:
    """Shares of the own questions at the end, in percent."""
    return _by_task(runs, lambda row, task: row["asked"][task])


def _by_task(runs: Runs, figure: Callable[[Row, str], float]) -> str:
    def line(_name: str, rows: Sequence[Row]) -> Sequence[str]:
        return [percent(statistics.fmean(figure(row, task) for row in rows)) for task in TASKS]

    return _by_arm(runs, TASKS, line)


def steering(runs: Runs) -> str:
    """Wanted → taken shares of peers' groups at the end, in percent, and what the pool had."""

    def line(_name: str, rows: Sequence[Row]) -> Sequence[str]:
        offered = percent(_mean(rows, lambda row: row["offered"] or 0.0))
        shares = [
            arrow(
                [row["asked"][task] for row in rows], [row["taken"].get(task, 0.0) for row in rows]
            )
            for task in TASKS
        ]
        return [offered, *shares]

    return _by_arm(runs, ("offered", *TASKS), line)


def groups(runs: Runs) -> str:
    """What there was to learn from, per node and round, and the steps of a run."""

    def line(_name: str, rows: Sequence[Row]) -> Sequence[str]:
        return (
            decimal(_mean(rows, lambda row: row["live_own"])),
            decimal(_mean(rows, lambda row: row["live_external"])),
            decimal(_mean(rows, lambda row: row["steps"]), 0),
        )

    return _by_arm(runs, ("live groups, own", "live groups of peers", "steps"), line)


def development(rows: Sequence[Row]) -> str:
    """What was tried, with held-out success at its end by seed."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if row["stage"] == "development":
            found.setdefault((row["arm"], row["option"]), []).append(row)
    if not found:
        return NOT_RUN
    lines = [
        [
            arm,
            f"`{option}`",
            ", ".join(percent(end_of(row)) for row in each),
            percent(statistics.fmean(map(end_of, each))),
        ]
        for (arm, option), each in found.items()
    ]
    return table(("arm", "option", "held-out, % by seed", "mean"), lines)


def _of_arms(runs: Runs, made: Callable[[Runs], str]) -> str:
    return made(runs) if runs else NOT_RUN


def _by_arm(
    runs: Runs, head: Sequence[str], line: Callable[[str, Sequence[Row]], Sequence[str]]
) -> str:
    if not runs:
        return NOT_RUN
    order = [arm.name for arm in (*ARMS, *SECOND, *ALONE) if arm.name in runs]
    lines = [[name, *line(name, list(runs[name].values()))] for name in order]
    return table(("arm", *head), lines)


def _mean(rows: Sequence[Row], figure: Callable[[Row], float]) -> float:
    return statistics.fmean(map(figure, rows))


def _settings(arm: StudyArm) -> str:
    return ", ".join(f"`{each}`" for each in arm.assignments)


def _tried(arm: StudyArm) -> str:
    if arm.like:
        return f"that of {arm.like}"
    return ", ".join(f"`{option}`" for option in arm.options) or "nothing"


def _shown(found: Estimate) -> str:
    if math.isnan(found.mean):
        return UNKNOWN
    if math.isnan(found.low):
        return points(found.mean)
    return f"{points(found.mean)} ({points(found.low)} to {points(found.high)})"
