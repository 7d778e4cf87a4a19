"""What was seen of an attack in the rounds of honest nodes: pure, from their reports."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from swarmnode.sim.attacks.measures import ANSWER_TOKENS, GROUPS, SAID, SET_TOKENS, TOKENS
from swarmnode.types import RoundReport


@dataclass(frozen=True, slots=True)
class Seen:
    """Means over honest nodes and seeds."""

    said: Mapping[str, tuple[float, float]]
    """By what an attack wants said, the share of held-out answers that say it: first and last
    evaluation, each in [0, 1]."""
    answer_tokens: tuple[float, float]
    """Length of the held-out answers, at the first and the last evaluation."""
    groups: float
    """Attackers' groups in a round's training set."""
    external_groups: float
    """Groups of others in it, attackers' and honest ones."""
    tokens: float
    """Attackers' share of the tokens of all training sets together, in [0, 1]."""


def seen(reports: Sequence[RoundReport]) -> Seen | None:
    """Of all these rounds; None where nobody measured."""
    measured = [report for report in reports if ANSWER_TOKENS in report.metrics]
    if not measured:
        return None
    first, last = (
        [report for report in measured if report.round == edge({r.round for r in measured})]
        for edge in (min, max)
    )
    rounds = [report for report in reports if report.round > 0]
    return Seen(
        said={
            name.removeprefix(SAID): (_mean(first, name), _mean(last, name))
            for name in sorted(first[0].metrics)
            if name.startswith(SAID)
        },
        answer_tokens=(_mean(first, ANSWER_TOKENS), _mean(last, ANSWER_TOKENS)),
        groups=_mean(rounds, GROUPS),
        external_groups=_mean(rounds, "mix/external_groups"),
        tokens=_mean(rounds, TOKENS) / (_mean(rounds, SET_TOKENS) or 1.0),
    )


def _mean(reports: Iterable[RoundReport], name: str) -> float:
    """A round without a step has no figure of its training set: nothing was trained on."""
    values = [report.metrics.get(name, 0.0) for report in reports]
    return statistics.fmean(values) if values else 0.0
