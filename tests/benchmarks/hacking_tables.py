"""The generated part of docs/results/hacking.md: blocks by name. Pure text.

A study that is not whole renders too, and says over which seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from tests.benchmarks.hacking_protocol import (
    ARMS,
    INNER_STEPS,
    LEVELS,
    SAMPLINGS,
    SEEDS,
    LengthArm,
    LengthRun,
    Level,
    Sampling,
    SpacesRun,
)
from tests.benchmarks.hacking_rows import ENTROPY, EXPECTED, Row, arm_of, end, start
from tests.benchmarks.sharing_markdown import (
    UNKNOWN,
    arrow,
    decimal,
    p_value,
    percent,
    table,
)
from tests.benchmarks.sharing_statistics import Estimate, estimate, holm
from tests.benchmarks.short_tables import (
    NOT_RUN,
    decided,
    interval,
    of_known,
    seeds_of,
    spread,
)
from tests.benchmarks.study_rows import by_arm_and_seed

Rows = Mapping[str, Mapping[int, Row]]
REMEDY: LengthArm = "gdpo, smooth"


def grouped(rows: Iterable[Row], case: str) -> Rows:
    """Those of a case by arm and seed; ValueError where one comes twice."""
    of_case = [row for row in rows if row["case"] == case]
    return by_arm_and_seed(sorted(of_case, key=lambda row: row["seed"]), lambda row: row["arm"])


def spaces_arm(level: Level, steps: int, sampling: Sampling) -> str:
    """As rows have it."""
    return arm_of(SpacesRun(level, steps, sampling, 0))


def paired(rows: Rows, one: str, other: str, figure: str) -> Estimate:
    """A figure at the end, `one` less `other`, over the seeds that both have."""
    first, second = rows.get(one, {}), rows.get(other, {})
    common = sorted(first.keys() & second.keys())
    return estimate([end(first[seed], figure) - end(second[seed], figure) for seed in common])


def spaces(rows: Rows) -> str:
    """Every arm of the first case."""
    lines = []
    for sampling, steps, level in product(SAMPLINGS, INNER_STEPS, LEVELS):
        some = list(rows.get(spaces_arm(level, steps, sampling), {}).values())
        lines.append(
            (
                *(sampling, str(steps), level),
                change(some, "dropped", percent),
                change(some, "success", percent),
                of_known([row["entropy"] for row in some], decimal),
                *warned(some, EXPECTED["spaces"]),
                of_known([row["clipped"] for row in some], percent),
            )
        )
    head = ("sampler", "inner steps", "ratio", "spaces dropped, %", "success, %", "entropy")
    rails = ("`whitespace` warned", "entropy then", "clipped, %")
    return f"{table((*head, *rails), lines)}\n\n{seeds_of(rows.values(), SEEDS)}"


def control(steps: int, sampling: Sampling) -> bool:
    """Whether every ratio is 1 there, so that token and sequence are one method."""
    return steps == 1 and "against" not in sampling


def ratios(rows: Rows) -> str:
    """What the sequence ratio does that the token ratio doesn't."""
    places = list(product(SAMPLINGS, INNER_STEPS))
    found = [
        paired(
            rows,
            spaces_arm("sequence", steps, sampling),
            spaces_arm("token", steps, sampling),
            "dropped",
        )
        for sampling, steps in places
    ]
    tested = [place for place, (arm, steps) in enumerate(places) if not control(steps, arm)]
    adjusted = dict(zip(tested, holm([found[place].p for place in tested]), strict=True))
    lines = [
        (
            *(sampling, str(steps), interval(found[place])),
            p_value(adjusted[place]) if place in adjusted else "control",
        )
        for place, (sampling, steps) in enumerate(places)
    ]
    names = [f"{places[place][0]} / {places[place][1]}" for place in tested]
    told = decided(names, [found[place] for place in tested], list(adjusted.values()))
    head = ("sampler", "inner steps", "spaces dropped: sequence less token, points", "p (Holm)")
    return f"{table(head, lines)}\n\nSequence less token. {told}"


def length(rows: Rows) -> str:
    """Every arm of the second case."""
    lines = []
    for arm in ARMS:
        some = list(rows.get(arm_of(LengthRun(arm, 0)), {}).values())
        lines.append(
            (
                arm,
                change(some, "tokens", lambda value: decimal(value, 1)),
                change(some, "liked", lambda value: decimal(value, 1)),
                change(some, "worth", percent),
                of_known([row["model_length"] for row in some], decimal),
                of_known([row["model_share"] for row in some], percent),
                of_known([row["entropy"] for row in some], decimal),
                *warned(some, EXPECTED["length"]),
            )
        )
    head = ("arm", "tokens", "reward model's score", "worth, %", "score with length")
    rails = ("share of the advantage, %", "entropy", "`length` warned", "entropy then")
    return f"{table((*head, *rails), lines)}\n\n{seeds_of(rows.values(), SEEDS)}"


def remedies(rows: Rows) -> str:
    """The last arm against each of the others."""
    others = [arm for arm in ARMS if arm != REMEDY]
    found = [paired(rows, REMEDY, arm, "worth") for arm in others]
    adjusted = holm([each.p for each in found])
    lines = [
        (
            *(arm, interval(each), p_value(p)),
            spread(paired(rows, REMEDY, arm, "tokens"), lambda one: decimal(one, 1)),
        )
        for arm, each, p in zip(others, found, adjusted, strict=True)
    ]
    told = f"Worth of {REMEDY} less another's. {decided(others, found, adjusted)}"
    head = (f"{REMEDY} less", "worth, points", "p (Holm)", "tokens")
    return f"{table(head, lines)}\n\n{told}"


def rails(rows: Rows, further: Rows) -> str:
    """Which guard-rails warned where, and when."""
    lines = []
    for case, of_case in (("spaces", rows), ("length", further)):
        for arm, runs in of_case.items():
            if any(row["alarms"] for row in runs.values()):
                lines.append((case, arm, _alarms(list(runs.values()))))
    return table(("case", "arm", "warned, and in which round (median)"), lines)


def render(rows: Iterable[Row]) -> dict[str, str]:
    """Every block by its name."""
    known = list(rows)
    of_spaces, of_length = grouped(known, "spaces"), grouped(known, "length")
    found = {
        "spaces": spaces(of_spaces),
        "ratios": ratios(of_spaces),
        "length": length(of_length),
        "remedies": remedies(of_length),
        "rails": rails(of_spaces, of_length),
    }
    return found if known else dict.fromkeys(found, NOT_RUN)


def change(rows: Sequence[Row], figure: str, shown: Callable[[float], str]) -> str:
    """Start → end."""
    return arrow([start(row, figure) for row in rows], [end(row, figure) for row in rows], shown)


def warned(rows: Sequence[Row], rail: str) -> tuple[str, str]:
    """In how many runs and when; where entropy stood then, and whether its own rail was silent."""
    rounds = [row["alarms"][rail] for row in rows if rail in row["alarms"]]
    if not rows:
        return UNKNOWN, UNKNOWN
    told = f"{len(rounds)} of {len(rows)}"
    if not rounds:
        return told, UNKNOWN
    told += f", round {statistics.median(rounds):.0f}"
    stood = [row["entropy_at_alarm"] for row in rows if row["entropy_at_alarm"] is not None]
    alarms = [row["alarms"] for row in rows if rail in row["alarms"]]
    silent = sum(each.get(ENTROPY, math.inf) > each[rail] for each in alarms)
    entropy = f"{spread(estimate(stood), decimal)}, silent in {silent} of {len(alarms)}"
    return told, entropy


def _alarms(rows: Sequence[Row]) -> str:
    names = sorted({name for row in rows for name in row["alarms"]})
    told = []
    for name in names:
        rounds = [row["alarms"][name] for row in rows if name in row["alarms"]]
        told.append((statistics.median(rounds), f"`{name}` {len(rounds)} of {len(rows)}"))
    return ", ".join(f"{text}: {when:.0f}" for when, text in sorted(told))
