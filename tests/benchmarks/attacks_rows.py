"""From the reports of a run of the attack lab to its row in docs/results/attacks.json. Pure.

"Start" is the evaluation before the first round, "end" the mean of the last two evaluations.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import TypedDict

from swarmnode.sim.attacks.measures import ANSWER_TOKENS, GROUPS, SAID, SET_TOKENS, TOKENS
from swarmnode.sim.summary import mean_reward
from swarmnode.types import RoundReport
from tests.benchmarks.attacks_protocol import EVERY_ROUNDS, LabRun

END_ROUNDS = 2 * EVERY_ROUNDS


class StartEnd(TypedDict):
    """A figure before the first round and at the end."""

    start: float
    end: float


class Row(TypedDict):
    """What the page shows of one run; figures are means over honest nodes."""

    arm: str
    seed: int
    held_out: StartEnd
    """Success on unseen questions, in [0, 1]."""
    said: dict[str, StartEnd]
    """Share of the answers to them that say what an attack wants said, by its name."""
    answer_tokens: StartEnd
    token_share: float
    """Attackers' tokens, of all tokens trained on."""
    attackers_groups: float
    """In a round's training set; as the next."""
    honest_groups: float
    """Of other honest nodes."""
    round_seconds: float
    """Of virtual time."""
    paused: float
    """Share of the rounds in which peers' groups were not trained on after a fall."""
    gated: float
    """Share of other nodes' completions that the gate found unlikely, of those that it looked
    at."""
    refused: dict[str, float]
    """Groups left out of a round's training set, by what bound."""
    dropped: dict[str, int]
    """By reason, over all rounds and nodes."""


def row_of(run: LabRun, reports: Sequence[RoundReport]) -> Row:
    """Everything that the page shows of a whole run."""
    last = max(report.round for report in reports)
    start = [report for report in reports if report.round == 0]
    end = [report for report in reports if report.round > last - END_ROUNDS]
    evaluated = [report for report in end if report.evaluation is not None]
    rounds = [report for report in reports if report.round > 0]
    external = _mean(rounds, "mix/external_groups")
    dropped: Counter[str] = Counter()
    for report in reports:
        dropped.update(report.dropped)

    def both(name: str) -> StartEnd:
        return {"start": _mean(start, name), "end": _mean(evaluated, name)}

    return Row(
        arm=run.arm.name,
        seed=run.seed,
        held_out={
            "start": _rounded(mean_reward(start, "held_out")),
            "end": _rounded(mean_reward(end, "held_out")),
        },
        said={
            name.removeprefix(SAID): both(name)
            for name in sorted(start[0].metrics)
            if name.startswith(SAID)
        },
        answer_tokens=both(ANSWER_TOKENS),
        token_share=_ratio(rounds, [TOKENS], [SET_TOKENS]),
        attackers_groups=_mean(rounds, GROUPS),
        honest_groups=_rounded(external - _mean(rounds, GROUPS)),
        round_seconds=_rounded(
            (max(r.clock_seconds for r in reports) - min(r.clock_seconds for r in start)) / last
        ),
        paused=_mean(rounds, "fallback/active"),
        gated=_ratio(
            rounds,
            ["log_prob_gate/over/same_tokenizer", "log_prob_gate/over/other_tokenizer"],
            ["log_prob_gate/measured/same_tokenizer", "log_prob_gate/measured/other_tokenizer"],
        ),
        refused={
            kind: _mean(rounds, f"mix/refused/{kind}")
            for kind in ("external", "prefix", "peer", "too_long")
        },
        dropped=dict(sorted(dropped.items())),
    )


def _mean(reports: Sequence[RoundReport], name: str) -> float:
    return _rounded(statistics.fmean(report.metrics.get(name, 0.0) for report in reports))


def _ratio(reports: Sequence[RoundReport], parts: Sequence[str], wholes: Sequence[str]) -> float:
    def total(names: Sequence[str]) -> float:
        return sum(report.metrics.get(name, 0.0) for report in reports for name in names)

    return _rounded(total(parts) / (total(wholes) or 1.0))


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")
