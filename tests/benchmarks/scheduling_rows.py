"""A run as a row of docs/results/scheduling.json, and what is read off rows. Pure.

"End" is the mean over the last tenth of the rounds, for held-out success that of the evaluations in
it; "start" is the evaluation before the first round.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

from swarmnode.sim.summary import RewardName, mean_reward
from swarmnode.types import RoundReport
from tests.benchmarks.scheduling_protocol import LAST_SHARE, StudyRun
from tests.benchmarks.sharing_statistics import Estimate, StartEnd, estimate
from tests.benchmarks.study_rows import by_arm_and_seed

Reports = Sequence[RoundReport]


class Row(TypedDict):
    """One run, all that the page shows of it. Successes are in [0, 1], means over nodes."""

    arm: str
    stage: str
    option: str
    seed: int
    rounds: int
    held_out: StartEnd
    greedy: StartEnd
    by_task: Mapping[str, StartEnd]
    asked: Mapping[str, float]
    """By task, its share of the own questions at the end."""
    taken: Mapping[str, float]
    """By task, its share of peers' groups at the end; empty where they were not steered."""
    offered: float | None
    """Share of what was wanted of peers that the pool had; None where they were not steered."""
    live_own: float
    live_external: float
    steps: float


Runs = Mapping[str, Mapping[int, Row]]
"""By arm and seed."""


def row_of(run: StudyRun, reports: Reports) -> Row:
    """Everything that the page shows of a whole run. Raises ValueError without held-out success."""
    tasks = [task for task, _ in run.settings.tasks.pairs]
    start = [report for report in reports if report.round == 0]
    end = [report for report in reports if report.round > run.rounds * (1.0 - LAST_SHARE)]
    rounds = [report for report in reports if report.round > 0]
    taken = _by_task(end, "steering/taken/", tasks)

    def success(reward: RewardName, task: str | None = None) -> StartEnd:
        pair = (mean_reward(start, reward, task), mean_reward(end, reward, task))
        if not all(map(math.isfinite, pair)):
            raise ValueError(f"{run.simulated.variant}, seed {run.seed}: no held-out success")
        return {"start": _rounded(pair[0]), "end": _rounded(pair[1])}

    return Row(
        arm=run.arm.name,
        stage=run.stage,
        option=run.option,
        seed=run.seed,
        rounds=run.rounds,
        held_out=success("held_out"),
        greedy=success("held_out_greedy"),
        by_task={task: success("held_out", task) for task in tasks},
        asked=_by_task(end, "scheduler/weight/", tasks) or dict.fromkeys(tasks, 1.0 / len(tasks)),
        taken=taken,
        offered=_rounded(_mean(end, "steering/offered")) if taken else None,
        live_own=_rounded(_mean(rounds, "mix/local_live_groups")),
        live_external=_rounded(_mean(rounds, "mix/external_live_groups")),
        steps=_rounded(_mean(rounds, "steps/taken") * run.rounds),
    )


def runs_by_arm(rows: Iterable[Row], *stages: str) -> Runs:
    """The runs of some stages. Raises ValueError where a seed of an arm comes twice."""
    return by_arm_and_seed((row for row in rows if row["stage"] in stages), lambda row: row["arm"])


def compared(runs: Runs, arm: str, other: str) -> Estimate:
    """Held-out success at the end, less that of another arm, over the seeds that both have."""
    one, two = runs.get(arm, {}), runs.get(other, {})
    seeds = sorted({*one} & {*two})
    return estimate([end_of(one[seed]) - end_of(two[seed]) for seed in seeds])


def end_of(row: Row) -> float:
    """The study's primary figure."""
    return row["held_out"]["end"]


def best_option(rows: Iterable[Row], arm: str, options: Sequence[str], seeds: Sequence[int]) -> str:
    """The option of the highest mean on the development seeds, the first of equals.

    Raises ValueError unless each has a run of exactly these seeds.
    """
    found = [row for row in rows if (row["stage"], row["arm"]) == ("development", arm)]
    means = []
    for option in options:
        of_option = {row["seed"]: end_of(row) for row in found if row["option"] == option}
        if sorted(of_option) != sorted(seeds):
            raise ValueError(f"{arm}, {option}: seeds {sorted(of_option)}, not {list(seeds)}")
        means.append(statistics.fmean(of_option.values()))
    return options[means.index(max(means))]


def _by_task(reports: Reports, prefix: str, tasks: Sequence[str]) -> dict[str, float]:
    found = {task: _mean(reports, prefix + task) for task in tasks}
    known = {task: share for task, share in found.items() if not math.isnan(share)}
    return {task: _rounded(share) for task, share in known.items()}


def _mean(reports: Reports, name: str) -> float:
    """Over the reports that have the figure; NaN where none has."""
    known = [report.metrics[name] for report in reports if name in report.metrics]
    return statistics.fmean(known) if known else math.nan


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
