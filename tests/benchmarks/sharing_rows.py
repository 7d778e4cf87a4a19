"""From the reports of a run to its row in docs/results/sharing.json. Pure.

"End" is the mean over the last tenth of the rounds, for held-out success that of the evaluations
in it; "start" is the evaluation before the first round, for entropy the first tenth of the rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from swarmnode.rewards.common_answers import concentration
from swarmnode.sim.common_answers import answers_of, loophole_first_seen
from swarmnode.sim.summary import RewardName, mean_reward
from swarmnode.sim.swarm import skills_of
from swarmnode.types import RoundReport, SampledAnswers
from tests.benchmarks.sharing_protocol import LAST_SHARE, StudyRun
from tests.benchmarks.sharing_statistics import CommonAnswers, Row, RunCurve, StartEnd

Reports = Sequence[RoundReport]


def row_of(run: StudyRun, reports: Reports) -> Row:
    """Everything that the page shows of a whole run."""
    settings = run.settings
    tasks = [task for task, _ in settings.tasks.pairs]
    span = round(run.rounds * LAST_SHARE)
    start = [report for report in reports if report.round == 0]
    end = [report for report in reports if report.round > run.rounds - span]
    early = [report for report in reports if 1 <= report.round <= span]
    rounds = [report for report in reports if report.round > 0]
    nodes = len(start)
    own = {number: set(skills_of(settings, number)) for number in range(nodes)}

    def success(reward: RewardName, task: str | None = None) -> StartEnd:
        return _pair(start, end, lambda some: mean_reward(some, reward, task))

    def on(chosen: Callable[[int], set[str]]) -> StartEnd:
        return _pair(start, end, lambda some: _on_tasks(some, chosen))

    def mean(*names: str) -> float:
        return statistics.fmean(sum(r.metrics.get(n, 0.0) for n in names) for r in rounds)

    answers = {"start": answers_of(start), "end": answers_of(end)}
    return Row(
        arm=run.arm.name,
        stage=run.stage,
        learning_rate=run.learning_rate,
        seed=run.seed,
        rounds=run.rounds,
        held_out=success("held_out"),
        greedy=success("held_out_greedy"),
        own_tasks=on(lambda node: own[node]),
        other_tasks=on(lambda node: set(tasks) - own[node]),
        entropy=_pair(early, end, _entropy),
        by_task={task: success("held_out", task) for task in tasks},
        local_end=_rounded(mean_reward(end, "local")),
        training_set_end=_rounded(mean_reward(end, "training_set")),
        questions=_rounded(mean("generated/groups")),
        live_own=_rounded(mean("mix/local_live_groups")),
        live_external=_rounded(mean("mix/external_live_groups")),
        tokens_generated=_rounded(mean("generated/tokens") * run.rounds),
        tokens_trained=_rounded(mean("tokens/local", "tokens/external") * run.rounds),
        steps=_rounded(mean("steps/taken") * run.rounds),
        common={
            task: {
                "start": _common(answers["start"].get(task)),
                "end": _common(answers["end"].get(task)),
            }
            for task in tasks
        },
        loophole_seen=dict(loophole_first_seen(rounds)),
        curve=_curve(reports),
    )


def _pair(start: Reports, end: Reports, figure: Callable[[Reports], float]) -> StartEnd:
    return {"start": _rounded(figure(start)), "end": _rounded(figure(end))}


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _entropy(reports: Reports) -> float:
    # A round without a live group trains on nothing, and has none.
    return statistics.fmean(r.metrics["entropy"] for r in reports if "entropy" in r.metrics)


def _on_tasks(reports: Reports, chosen: Callable[[int], set[str]]) -> float:
    """Held-out success, per node over its chosen tasks, then over nodes and evaluations.

    Every node must have chosen a task.
    """
    return statistics.fmean(
        statistics.fmean(report.evaluation.held_out.by_task[task] for task in chosen(report.node))
        for report in reports
        if report.evaluation is not None
    )


def _common(answers: SampledAnswers | None) -> CommonAnswers:
    if answers is None:
        return {"right": 0, "share": None, "expected": None, "answers": []}
    found = concentration(answers)
    return {
        "right": sum(answers.right.values()),
        "share": None if found is None else _rounded(found.share),
        "expected": None if found is None else _rounded(found.expected),
        "answers": [(each.text, each.count, each.right) for each in answers.commonest],
    }


def _curve(reports: Reports) -> RunCurve:
    evaluated = sorted({r.round for r in reports if r.evaluation is not None})
    by_round: Mapping[int, list[RoundReport]] = {number: [] for number in evaluated}
    between: Mapping[int, list[RoundReport]] = {number: [] for number in evaluated}
    for report in reports:
        if report.round in by_round:
            by_round[report.round].append(report)
        between[min(number for number in evaluated if number >= report.round)].append(report)

    def means(reward: RewardName, points: Mapping[int, Iterable[RoundReport]]) -> list[float]:
        return [_rounded(mean_reward(points[number], reward)) for number in evaluated]

    return {
        "rounds": evaluated,
        "held_out": means("held_out", by_round),
        "local": [None, *means("local", between)[1:]],
        "training_set": [None, *means("training_set", between)[1:]],
    }
