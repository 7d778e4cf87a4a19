"""Round reports as plain values: what a simulation's folder and a node's store keep of a round."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

from swarmnode.types import (
    CommonAnswer,
    Evaluation,
    RoundReport,
    SampledAnswers,
    TaskRewards,
    TrainedGroup,
)

ENTRIES = 32
"""Of one line of the log."""


def report_as_json(report: RoundReport) -> dict[str, Any]:
    """A report as plain values, rounded to what is worth reading."""
    line: dict[str, Any] = {
        "node": report.node,
        "round": report.round,
        "clock_seconds": round(report.clock_seconds, 3),
        "reward/local": _rounded(report.local.by_task),
        "reward/training_set": _rounded(report.training_set.by_task),
        "metrics": _rounded(report.metrics),
        "dropped": dict(report.dropped),
        "sources": dict(report.sources),
        "trained": [list(astuple(each)) for each in report.trained],
    }
    if report.evaluation is not None:
        line["held_out"] = dict(report.evaluation.sampled)
        line["held_out_greedy"] = dict(report.evaluation.greedy)
        line["answers"] = {
            task: _answers_as_json(answers) for task, answers in report.evaluation.answers.items()
        }
    return line


def report_in_short(report: RoundReport, seconds: float, *, alone: bool) -> dict[str, Any]:
    """What the log says of a round that took so many seconds; of a node alone, without peers."""
    evaluation = report.evaluation
    held_out = {"held_out": round(evaluation.held_out.mean, 3)} if evaluation else {}
    peers = {
        "external_groups": int(report.metrics["mix/external_groups"]),
        "peers": int(report.metrics["mix/external_peers"]),
        **_corrections(report.metrics),
    }
    return {
        "number": report.round,
        "local": round(report.local.mean, 3),
        "training_set": round(report.training_set.mean, 3),
        **held_out,
        **({} if alone else peers),
        "seconds": round(seconds, 2),
    }


def trained_in_short(report: RoundReport) -> list[list[str]]:
    """What the log says of a round's groups: each with its publisher, level, the reason and task.

    Those of one publisher that were treated alike share an entry; a line of the log holds so many.
    """
    tasks: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for each in report.trained:
        tasks[each.publisher, each.level, each.why][each.task] += 1
    entries = [
        f"{publisher} {level} ({why}): "
        + ", ".join(task if count == 1 else f"{count} {task}" for task, count in counted.items())
        for (publisher, level, why), counted in tasks.items()
    ]
    return [entries[start : start + ENTRIES] for start in range(0, len(entries), ENTRIES)]


def _corrections(metrics: Mapping[str, float]) -> dict[str, str]:
    """How many external groups were trained on at which level, where there were any."""
    counts = {
        name.removeprefix("corrections/"): int(count)
        for name, count in metrics.items()
        if name.startswith("corrections/") and count
    }
    told = ", ".join(f"{count} {level}" for level, count in sorted(counts.items()))
    return {"corrections": told} if told else {}


def _answers_as_json(answers: SampledAnswers) -> dict[str, Any]:
    return {
        "commonest": [[each.text, each.count, each.right] for each in answers.commonest],
        "right": dict(answers.right),
        "references": dict(answers.references),
    }


def report_from_json(line: Mapping[str, Any]) -> RoundReport:
    """The inverse, up to rounding; `answers`, `sources` and `trained` may be missing."""
    evaluation = None
    if "held_out" in line:
        answers = {
            task: SampledAnswers(
                tuple(CommonAnswer(*each) for each in found["commonest"]),
                found["right"],
                found["references"],
            )
            for task, found in line.get("answers", {}).items()
        }
        evaluation = Evaluation(line["held_out"], line["held_out_greedy"], answers)
    return RoundReport(
        node=line["node"],
        round=line["round"],
        clock_seconds=line["clock_seconds"],
        local=TaskRewards(line["reward/local"]),
        training_set=TaskRewards(line["reward/training_set"]),
        evaluation=evaluation,
        metrics=line["metrics"],
        dropped=line["dropped"],
        sources=line.get("sources", {}),
        trained=[TrainedGroup(*each) for each in line.get("trained", ())],
    )


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.7g}") for name, value in values.items()}
