"""The generated part of docs/results/mismatch.md: blocks by name. Pure text.

A study that is not whole renders too, and says over which seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product

from tests.benchmarks.mismatch_protocol import (
    COMPARED,
    CORRECTIONS,
    KINDS,
    SEEDS,
    SIZES,
    Correction,
    Kind,
)
from tests.benchmarks.mismatch_rows import Row, collapsed, end, start
from tests.benchmarks.sharing_markdown import (
    arrow,
    decimal,
    p_value,
    percent,
    table,
)
from tests.benchmarks.sharing_statistics import Estimate, estimate, holm
from tests.benchmarks.short_tables import NOT_RUN, decided, interval, of_known, seeds_of
from tests.benchmarks.study_rows import by_arm_and_seed

Arm = tuple[Kind, float, Correction]
Rows = Mapping[Arm, Mapping[int, Row]]


def grouped(rows: Iterable[Row]) -> Rows:
    """By arm and seed; ValueError where one comes twice."""
    return by_arm_and_seed(
        sorted(rows, key=lambda row: row["seed"]),
        lambda row: (row["kind"], row["size"], row["correction"]),
    )


def samplers() -> Sequence[tuple[Kind, float]]:
    """In the order of the tables."""
    return [("exact", 0.0), *product(KINDS, SIZES)]


def paired(rows: Rows, kind: Kind, size: float, one: Correction, other: Correction) -> Estimate:
    """Held-out success at the end, `one` less `other`, over the seeds that both have."""
    first, second = (rows.get((kind, size, name), {}) for name in (one, other))
    common = sorted(first.keys() & second.keys())
    return estimate([end(first[seed]) - end(second[seed]) for seed in common])


def answer(rows: Rows) -> str:
    """The comparisons that the claim stands or falls with."""
    compared = list(product(KINDS, COMPARED))
    found = [paired(rows, kind, size, "truncated", "ppo-is") for kind, size in compared]
    adjusted = holm([each.p for each in found])
    lines = []
    for (kind, size), against, p in zip(compared, found, adjusted, strict=True):
        counts = [
            f"{sum(map(collapsed, some))} of {len(some)}"
            for name in CORRECTIONS
            for some in [rows.get((kind, size, name), {}).values()]
        ]
        none = paired(rows, kind, size, "truncated", "none")
        lines.append((kind, f"{size:g}", interval(against), p_value(p), interval(none), *counts))
    head = ("sampler", "nats", "truncated less PPO-IS, points", "p (Holm)")
    collapses = ("collapsed: none", "PPO-IS", "truncated")
    columns = (*head, "truncated less none, points", *collapses)
    names = [f"{kind} {size:g}" for kind, size in compared]
    told = f"Truncated less PPO-IS. {decided(names, found, adjusted)}"
    return f"{table(columns, lines)}\n\n{told}\n\n{seeds_of(rows.values(), SEEDS)}"


def success(rows: Rows) -> str:
    """Start and end of every arm."""
    lines = []
    for kind, size in samplers():
        of_size = [rows.get((kind, size, name), {}).values() for name in CORRECTIONS]
        cells = [
            arrow([start(row) for row in some], [end(row) for row in some]) for some in of_size
        ]
        lines.append((kind, f"{size:g}", *cells))
    return table(("sampler", "nats", "none, %", "PPO-IS, %", "truncated, %"), lines)


def signal(rows: Rows) -> str:
    """What became of the gradient."""
    lines = []
    for kind, size in samplers():
        for name in CORRECTIONS:
            some = list(rows.get((kind, size, name), {}).values())
            lines.append(
                (
                    *(kind, f"{size:g}", name),
                    of_known([row["difference"] for row in some], lambda one: decimal(one, 4)),
                    of_known([row["lost_positive"] for row in some], percent),
                    of_known([row["lost_negative"] for row in some], percent),
                    of_known([row["cap_hits"] for row in some], lambda one: percent(one, 2)),
                    of_known([row["effective"] for row in some], percent),
                    of_known([row["live"] for row in some], percent),
                    of_known([row["entropy_start"] for row in some], decimal)
                    + " → "
                    + of_known([row["entropy_end"] for row in some], decimal),
                )
            )
    head = ("sampler", "wanted, nats", "correction", "measured, nats")
    lost = ("lost of A > 0, %", "lost of A < 0, %")
    further = ("over the cap, %", "effective sample, %", "live groups, %", "entropy, nats")
    return table((*head, *lost, *further), lines)


BLOCKS: Mapping[str, Callable[[Rows], str]] = {
    "answer": answer,
    "success": success,
    "signal": signal,
}


def render(rows: Iterable[Row]) -> dict[str, str]:
    """Every block by its name."""
    by_arm = grouped(rows)
    return {name: block(by_arm) if by_arm else NOT_RUN for name, block in BLOCKS.items()}
