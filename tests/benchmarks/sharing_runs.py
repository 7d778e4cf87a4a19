"""What the tables of the study's page share: the protocol, runs by arm and stage, comparisons.

Pure. A study that is not whole is looked at too: comparisons use the seeds that both arms have, and
say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tests.benchmarks.sharing_markdown import UNKNOWN, arrow, p_value, points
from tests.benchmarks.sharing_statistics import (
    Estimate,
    Row,
    Stage,
    by_seed,
    compare,
    estimate,
    held_out_gain,
    holm,
)

NOT_RUN = "Not run."


@dataclass(frozen=True, slots=True)
class StudyProtocol:
    """What was fixed before the runs, as far as the page tells of it.

    `arms` maps the name of each main arm to a one-line description, in the order of the tables.
    Every main arm is compared with `reference`, and `sharing` with each of `controls`. `mixes`
    names the arms of the table of mixes, of stage main or mixes. `baselines` has the success of the
    best constant answer by task, None where nobody measured it.
    """

    arms: Mapping[str, str]
    rates: Sequence[float]
    development_seeds: Sequence[int]
    fresh_seeds: Sequence[int]
    rounds: int
    tasks: Sequence[str]
    baselines: Mapping[str, float | None]
    reference: str = "8/0"
    sharing: str = "4/4 positive"
    controls: Sequence[str] = ("8/0 positive", "8/0 dynamic", "4/4 replay", "4/4 both")
    mixes: Sequence[str] = ("8/0", "6/2", "4/4 positive", "2/6")

    def __post_init__(self) -> None:
        """ValueError where an arm to compare is none of `arms`."""
        wanted = (self.reference, self.sharing, *self.controls)
        if strange := [name for name in wanted if name not in self.arms]:
            raise ValueError(f"to be compared, but no arm: {', '.join(map(repr, strange))}")


@dataclass(frozen=True, slots=True)
class Runs:
    """The rows of a study beside its protocol."""

    rows: Sequence[Row]
    protocol: StudyProtocol

    def of(self, arm: str, stage: Stage = "main") -> list[Row]:
        """One arm at one stage, in the order of the seeds; ValueError as `by_seed`."""
        found = (row for row in self.rows if (row["arm"], row["stage"]) == (arm, stage))
        return list(by_seed(found).values())

    def present(self, stage: Stage) -> dict[str, list[Row]]:
        """The arms that have runs at this stage, in the protocol's order."""
        names = dict.fromkeys([*self.protocol.arms, *self.protocol.mixes])
        return {name: rows for name in names if (rows := self.of(name, stage))}

    def caption(self, arms: Mapping[str, Sequence[Row]]) -> str:
        """Over which seeds and rounds the figures are means, and what is missing of it."""
        seeds = sorted({row["seed"] for rows in arms.values() for row in rows})
        rounds = sorted({row["rounds"] for rows in arms.values() for row in rows})
        text = f"Over {counted(len(seeds), 'seed')} ({', '.join(map(str, seeds)) or 'none'})"
        text += f", {' or '.join(map(str, rounds))} rounds" if rounds else ""
        main = any(row["stage"] == "main" for rows in arms.values() for row in rows)
        planned = len(self.protocol.fresh_seeds)
        missing = [f"{planned} seeds were planned"] if main and len(seeds) < planned else []
        fewer = [f"{n} has {len(r)}" for n, r in arms.items() if len(r) < len(seeds)]
        return "; ".join([text, *missing, *fewer]) + "."


def counted(count: int, noun: str) -> str:
    """1 seed, 2 seeds."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def compared(pairs: Sequence[tuple[Sequence[Row], Sequence[Row]]]) -> list[tuple[str, str]]:
    """Cells of the difference in held-out success and of Holm's p for each pair, one family.

    Over the seeds that both of a pair have; their count is added where one has more.
    """
    estimates, notes = [], []
    for rows, others in pairs:
        seeds = {row["seed"] for row in _measured(rows)} & {r["seed"] for r in _measured(others)}
        both = [[row for row in each if row["seed"] in seeds] for each in (rows, others)]
        estimates.append(compare(both[0], both[1]))
        fewer = len(seeds) < max(len(rows), len(others))
        notes.append(f", {counted(len(seeds), 'seed')}" if fewer else "")
    adjusted = holm([each.p for each in estimates])
    return [
        (interval(each) + note if each.count else UNKNOWN, p_value(p))
        for each, note, p in zip(estimates, notes, adjusted, strict=True)
    ]


def interval(value: Estimate) -> str:
    """A difference in points with its interval; without one below two seeds."""
    if math.isnan(value.low):
        return points(value.mean)
    return f"{points(value.mean)} ({points(value.low)} to {points(value.high)})"


def gain(rows: Iterable[Row]) -> str:
    """End less start of held-out success, in points with the interval over seeds."""
    return interval(estimate([held_out_gain(row) for row in _measured(rows)]))


def change(
    rows: Sequence[Row], figure: Literal["held_out", "greedy", "own_tasks", "other_tasks"]
) -> str:
    """A success in percent, start → end, mean over seeds."""
    if not rows:
        return "not run"
    return arrow([row[figure]["start"] for row in rows], [row[figure]["end"] for row in rows])


def _measured(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if math.isfinite(held_out_gain(row))]
