"""A run as a row of docs/results/mixing.json, and what is read off a row. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TypedDict

from swarmnode.pretraining.folder import Row as Step
from swarmnode.pretraining.summary import summarize
from tests.benchmarks.mixing_protocol import StudyRun


class Row(TypedDict):
    """One run, all that the page shows of it. Losses are in nats a byte."""

    arm: str
    stage: str
    option: str
    learning_rate: float
    seed: int
    parameters: int
    steps: Sequence[int]
    """Of the validations, the first one 0."""
    macro: Sequence[float]
    mixture: Sequence[float]
    seconds: Sequence[float]
    """Of processor time that all steps up to each validation took, validations left out."""
    by_domain: Mapping[str, float]
    """At the end."""
    last_shares: Mapping[str, float]
    """Over the last tenth of the steps."""
    epochs: Mapping[str, float]
    milliseconds: Mapping[str, float]
    """Median of a step, by part."""
    metrics: Mapping[str, float]
    """The scheduler's at the end."""


def row_of(
    run: StudyRun,
    rows: Sequence[Step],
    names: Sequence[str],
    static: Sequence[float],
    sequences: Sequence[int],
    parameters: int,
) -> Row:
    """The row of a whole run; `sequences` is how many each domain has."""
    found = summarize(rows, static)
    spent, at = 0.0, {}
    for step in rows:
        spent += sum(step.seconds.values())
        at[step.step] = spent

    def named(values: Sequence[float]) -> dict[str, float]:
        return {name: rounded(value) for name, value in zip(names, values, strict=True)}

    return Row(
        arm=run.arm.name,
        stage=run.stage,
        option=run.option,
        learning_rate=run.learning_rate,
        seed=run.seed,
        parameters=parameters,
        steps=list(found.curves.steps),
        macro=[rounded(value) for value in found.curves.macro],
        mixture=[rounded(value) for value in found.curves.mixture],
        seconds=[rounded(at[step]) for step in found.curves.steps],
        by_domain=named(found.curves.by_domain[-1]),
        last_shares=named(found.last_shares),
        epochs=named([r / s for r, s in zip(found.read, sequences, strict=True)]),
        milliseconds={part: rounded(value) for part, value in found.milliseconds.items()},
        metrics={name: rounded(value) for name, value in found.metrics.items()},
    )


def rounded(value: float) -> float:
    """To six digits. Raises ValueError for what is not finite: a run must not fail in silence."""
    if not math.isfinite(value):
        raise ValueError("a run has a value that is not finite")
    return float(f"{value:.6g}")


def reached(row: Row, wanted: float, along: Sequence[float]) -> float | None:
    """How far along the macro loss first was `wanted`, in a line between validations.

    `along` are the row's steps or seconds. None where it never was.
    """
    for after, loss in enumerate(row["macro"]):
        if loss <= wanted:
            if after == 0:
                return float(along[0])
            before = row["macro"][after - 1]
            part = (before - wanted) / (before - loss)
            return along[after - 1] + part * (along[after] - along[after - 1])
    return None


def overhead(row: Row) -> float:
    """What the scheduler adds to a step, gradients included, over the rest."""
    spent = row["milliseconds"]
    return (spent["gradients"] + spent["scheduler"]) / (spent["model"] + spent["data"])


def best_option(rows: Sequence[Row], arm: str) -> Row:
    """The development run of an arm with the lowest macro loss. Raises ValueError without any."""
    tried = [row for row in rows if row["stage"] == "development" and row["arm"] == arm]
    if not tried:
        raise ValueError(f"{arm} has no development run")
    return min(tried, key=lambda row: row["macro"][-1])


def mean_of(rows: Sequence[Row], name: str) -> Mapping[str, float]:
    """Means over runs of one of the rows' mappings."""
    every: list[Mapping[str, float]] = [row[name] for row in rows]  # type: ignore[literal-required]
    return {key: statistics.fmean(each[key] for each in every) for key in every[0]}
