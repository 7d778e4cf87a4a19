"""The tables of docs/results/split.md. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from tests.benchmarks.sharing_markdown import UNKNOWN, decimal, mean, percent, table
from tests.benchmarks.sharing_statistics import Estimate, estimate
from tests.benchmarks.short_tables import NOT_RUN, interval, seeds_of
from tests.benchmarks.split_protocol import (
    BOTH,
    CONFIRMATION_SEEDS,
    GENERATORS,
    LAGS,
    MARGIN,
    QUESTIONS,
    SEEDS,
    SPEED_REPEATS,
    SPLIT,
    SYNC,
    Part,
)
from tests.benchmarks.split_rows import Row
from tests.benchmarks.study_rows import by_arm_and_seed

BySeed = Mapping[int, Row]
Arms = Mapping[str, BySeed]


def render(rows: Sequence[Row]) -> Mapping[str, str]:
    """The blocks of the page by their names."""
    return {
        "speed": _speed(_of("speed", rows)),
        "swarm": _swarm(_of("swarm", rows), SEEDS),
        "confirmation": _swarm(_of("confirmation", rows), CONFIRMATION_SEEDS),
        "lag": _curve(_of("lag", rows), "largest lag", (SYNC, *map(str, LAGS))),
        "learning": _learning(_of("learning", rows)),
        "generators": _curve(_of("generators", rows), "generators", tuple(map(str, GENERATORS))),
    }


def _of(part: Part, rows: Sequence[Row]) -> Arms:
    return by_arm_and_seed([row for row in rows if row["part"] == part], lambda row: row["arm"])


def _speed(arms: Arms) -> str:
    if not {SYNC, SPLIT, BOTH} <= arms.keys():
        return NOT_RUN
    seconds = {
        arm: statistics.median(row["seconds"] for row in runs.values())
        for arm, runs in arms.items()
    }
    phases = [
        statistics.median(row[phase] or 0.0 for row in arms[SYNC].values())
        for phase in ("produce", "learn")
    ]
    bound = max(phases)
    lines = [
        [
            arm,
            decimal(seconds[arm]),
            decimal(seconds[SYNC] / seconds[arm]),
            f"{percent(bound / seconds[arm], 0)} %" if arm == SPLIT else UNKNOWN,
            _share(arms[arm], "trainer_idle"),
            _share(arms[arm], "generators_idle"),
        ]
        for arm in (SYNC, SPLIT, BOTH)
    ]
    head = ["arm", "s a round", "× sync", "of the bound", "trainer idle", "generator idle"]
    return "\n\n".join(
        [
            f"Generation takes {decimal(phases[0])} s and training {decimal(phases[1])} s: no "
            f"round of `split` can be shorter than {decimal(bound)} s.",
            table(head, lines),
            f"`sync` with both threads over `split`: {decimal(seconds[BOTH] / seconds[SPLIT])}. "
            + _seeds(arms, SEEDS[:SPEED_REPEATS]),
        ]
    )


def _swarm(arms: Arms, planned: Sequence[int]) -> str:
    if not {SYNC, SPLIT} <= arms.keys():
        return NOT_RUN
    found = _less(arms[SPLIT], arms[SYNC])
    verdict = "no worse" if found.low > MARGIN else "not shown to be no worse"
    lines = [
        [
            arm,
            mean([row["held_out_start"] for row in arms[arm].values()], percent),
            mean([row["held_out"] for row in arms[arm].values()], percent),
            mean([row["external_groups"] for row in arms[arm].values()], decimal),
            _figure(arms[arm], "lag_mean"),
            _share(arms[arm], "stale"),
        ]
        for arm in (SYNC, SPLIT)
    ]
    head = ["arm", "held-out, %", "at the end, %", "peers' groups a round", "mean lag", "stale"]
    return "\n\n".join(
        [
            f"**`split` is {verdict}**: {interval(found)} points to `sync` at as many own groups; "
            f"the lower end was to be above {decimal(100 * MARGIN, 0)}.",
            table(head, lines),
            _seeds(arms, planned),
        ]
    )


def _curve(arms: Arms, what: str, order: Sequence[str]) -> str:
    if not arms:
        return NOT_RUN
    lines = [
        [
            arm,
            mean([QUESTIONS / row["seconds"] for row in arms[arm].values()], decimal),
            mean([row["held_out_start"] for row in arms[arm].values()], percent),
            mean([row["held_out"] for row in arms[arm].values()], percent),
            _figure(arms[arm], "lag_mean"),
            _figure(arms[arm], "lag_max"),
            _figure(arms[arm], "age_seconds"),
            _share(arms[arm], "trainer_idle"),
            _share(arms[arm], "generators_idle"),
            _share(arms[arm], "stale"),
        ]
        for arm in order
        if arm in arms
    ]
    head = [
        what,
        "groups a second",
        "held-out, %",
        "at the end, %",
        "mean lag",
        "largest",
        "age, s",
        "trainer idle",
        "generators idle",
        "stale",
    ]
    return f"{table(head, lines)}\n\n{_seeds(arms)}"


def _learning(arms: Arms) -> str:
    if not arms:
        return NOT_RUN
    lines = [
        [
            arm,
            mean([row["held_out_start"] for row in arms[arm].values()], percent),
            mean([row["held_out"] for row in arms[arm].values()], percent),
            UNKNOWN if arm == SYNC else interval(_less(arms[arm], arms.get(SYNC, {}))),
            _figure(arms[arm], "lag_mean"),
            _share(arms[arm], "stale"),
        ]
        for arm in (SYNC, *map(str, LAGS))
        if arm in arms
    ]
    head = ["largest lag", "held-out, %", "at the end, %", "less sync, points", "mean lag", "stale"]
    return f"{table(head, lines)}\n\n{_seeds(arms)}"


def _less(arm: BySeed, other: BySeed) -> Estimate:
    """Held-out success of an arm less another's, paired over the seeds that both have."""
    shared = sorted(arm.keys() & other.keys())
    return estimate([arm[seed]["held_out"] - other[seed]["held_out"] for seed in shared])


def _seeds(arms: Arms, planned: Sequence[int] = SEEDS) -> str:
    return seeds_of(arms.values(), planned)


def _figure(runs: BySeed, name: str) -> str:
    return mean(_known(runs, name), decimal)


def _share(runs: BySeed, name: str) -> str:
    found = mean(_known(runs, name), lambda value: percent(value, 1))
    return found if found == UNKNOWN else f"{found} %"


def _known(runs: BySeed, name: str) -> list[float]:
    values = (dict(row)[name] for row in runs.values())
    return [value for value in values if isinstance(value, float | int)]
