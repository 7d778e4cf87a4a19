"""From the rounds of a run of the hacking study to its row in docs/results/hacking.json. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TypedDict

from tests.benchmarks.hacking_protocol import LAST, HackingRun, SpacesRun

Round = Mapping[str, float]
"""A round's metrics, those of the guard-rails among them."""
Exam = Mapping[str, float]
"""What the policy's own held-out answers were: one figure by name."""

ALARM = "guard/alarm/"
ENTROPY = "entropy"
USUAL_ROUNDS = 20
"""As many as the guard-rails take for normal."""
RECENT_ROUNDS = 5


class Row(TypedDict):
    """One run; what a case doesn't have is missing from `exams`, and None among figures."""

    case: str
    """`spaces` or `length`."""
    arm: str
    seed: int
    rounds: Sequence[int]
    """After which it was examined; the first is 0."""
    exams: Mapping[str, Sequence[float]]
    """Figures of the held-out answers by name, one an examination."""
    alarms: Mapping[str, int]
    """The first round in which a guard-rail warned, by its figure."""
    entropy: float | None
    """Mean over the last fifth of the rounds as a share of the first rounds' median."""
    entropy_at_alarm: float | None
    """The same of the five rounds before the first alarm of the rail that ought to see the case."""
    clipped: float | None
    """Share of trained tokens, mean over rounds; as the next."""
    lost_positive: float | None
    lost_negative: float | None
    model_share: float | None
    """The reward model's share of the advantages' variance, over the last fifth."""
    model_length: float | None
    """Rank correlation of its score with length within groups, over the first rounds."""


def arm_of(run: HackingRun) -> str:
    """As it stands in the tables."""
    if isinstance(run, SpacesRun):
        return f"{run.level} / {run.inner_steps} / {run.sampling}"
    return run.arm


def row_of(run: HackingRun, rounds: Sequence[Round], exams: Mapping[int, Exam]) -> Row:
    """Everything that the page shows of a whole run."""
    fifth = rounds[-max(1, len(rounds) // 5) :]
    found = alarms(rounds)
    rail = EXPECTED["spaces" if isinstance(run, SpacesRun) else "length"]
    first = found.get(rail)
    before = rounds[max(0, (first or 1) - 1 - RECENT_ROUNDS) : (first or 1) - 1]
    return Row(
        case="spaces" if isinstance(run, SpacesRun) else "length",
        arm=arm_of(run),
        seed=run.seed,
        rounds=list(exams),
        exams={name: [_rounded(each[name]) for each in exams.values()] for name in exams[0]},
        alarms=found,
        entropy=_share(_mean(fifth, ENTROPY), _usual(rounds)),
        entropy_at_alarm=_share(_mean(before, ENTROPY), _usual(rounds)) if first else None,
        clipped=_mean(rounds, "clip_ratio/region_mean"),
        lost_positive=_mean(rounds, "advantage_lost/positive"),
        lost_negative=_mean(rounds, "advantage_lost/negative"),
        model_length=_mean(rounds[:USUAL_ROUNDS], "channels/length_correlation/reward_model"),
        model_share=_mean(fifth, "channels/advantage_share/reward_model"),
    )


EXPECTED: Mapping[str, str] = {"spaces": "whitespace/latin", "length": "length"}
"""The guard-rail that ought to see a case first."""


def alarms(rounds: Sequence[Round]) -> dict[str, int]:
    """The first round, from 1, in which each figure warned."""
    found: dict[str, int] = {}
    for number, metrics in enumerate(rounds, 1):
        for name in metrics:
            if name.startswith(ALARM):
                found.setdefault(name.removeprefix(ALARM), number)
    return found


def start(row: Row, name: str) -> float:
    """A figure of the first examination."""
    return row["exams"][name][0]


def end(row: Row, name: str) -> float:
    """The mean of the last examinations."""
    return statistics.fmean(row["exams"][name][1:][-LAST:])


def _usual(rounds: Sequence[Round]) -> float | None:
    known = [each[ENTROPY] for each in rounds[:USUAL_ROUNDS] if ENTROPY in each]
    return statistics.median(known) if known else None


def _share(value: float | None, of: float | None) -> float | None:
    return _rounded(value / of) if value is not None and of else None


def _mean(rounds: Sequence[Round], name: str) -> float | None:
    known = [each[name] for each in rounds if math.isfinite(each.get(name, math.nan))]
    return _rounded(statistics.fmean(known)) if known else None


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
