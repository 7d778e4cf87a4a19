"""From the rounds of a run of the mismatch study to its row in docs/results/mismatch.json. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TypedDict

from tests.benchmarks.mismatch_protocol import COLLAPSED, LAST, Correction, Kind, MismatchRun

Round = Mapping[str, float]
"""What a round was measured to be; a figure that has no meaning in it is missing."""


class Row(TypedDict):
    """One run; figures but the first three are means over rounds, None where none has it."""

    kind: Kind
    size: float
    correction: Correction
    seed: int
    rounds: Sequence[int]
    """After which it was examined; the first is 0."""
    held_out: Sequence[float]
    """Success of the policy, not of its sampler, in [0, 1]."""
    difference: float | None
    """Measured before the step, nats a token."""
    lost_positive: float | None
    lost_negative: float | None
    cap_hits: float | None
    """Share of the sampled tokens with π/μ of at least the cap."""
    effective: float | None
    """Effective sample share of the truncated weights, whether or not they are used."""
    clipped: float | None
    live: float | None
    """Share of the groups that are."""
    sampled: float | None
    """Success of what was trained on."""
    entropy_start: float | None
    """Over the first fifth of the rounds."""
    entropy_end: float | None
    """Over the last fifth."""


def row_of(run: MismatchRun, rounds: Sequence[Round], held_out: Mapping[int, float]) -> Row:
    """Everything that the page shows of a whole run."""
    fifth = max(1, len(rounds) // 5)
    return Row(
        kind=run.kind,
        size=run.size,
        correction=run.correction,
        seed=run.seed,
        rounds=list(held_out),
        held_out=list(held_out.values()),
        difference=_mean(rounds, "difference"),
        lost_positive=_mean(rounds, "advantage_lost/positive"),
        lost_negative=_mean(rounds, "advantage_lost/negative"),
        cap_hits=_mean(rounds, "cap_hits"),
        effective=_mean(rounds, "effective"),
        clipped=_mean(rounds, "clip_ratio/region_mean"),
        live=_mean(rounds, "live"),
        sampled=_mean(rounds, "sampled"),
        entropy_start=_mean(rounds[:fifth], "entropy"),
        entropy_end=_mean(rounds[-fifth:], "entropy"),
    )


def start(row: Row) -> float:
    """Held-out success before the first round."""
    return row["held_out"][0]


def end(row: Row) -> float:
    """Held-out success at the end: the mean of the last evaluations."""
    return statistics.fmean(row["held_out"][1:][-LAST:])


def collapsed(row: Row) -> bool:
    """Whether it ends far below where it began."""
    return end(row) < COLLAPSED * start(row)


def _mean(rounds: Sequence[Round], name: str) -> float | None:
    known = [each[name] for each in rounds if math.isfinite(each.get(name, math.nan))]
    return float(f"{statistics.fmean(known):.6g}") if known else None
