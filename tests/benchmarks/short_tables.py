"""Words of tables that studies of short runs share. Pure text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.benchmarks.sharing_markdown import UNKNOWN, mean, points
from tests.benchmarks.sharing_statistics import Estimate

NOT_RUN = "Not run."
ALPHA = 0.05
"""What an adjusted p has to be below for a comparison to count as decided."""


def decided(names: Sequence[str], found: Sequence[Estimate], adjusted: Sequence[float]) -> str:
    """Which of the comparisons are decided, and which way, by their adjusted p."""
    sides: dict[str, list[str]] = {"above 0": [], "below 0": [], "not decided": [], "not run": []}
    for name, each, p in zip(names, found, adjusted, strict=True):
        if math.isnan(p):
            side = "not run"
        elif p >= ALPHA:
            side = "not decided"
        else:
            side = "above 0" if each.mean > 0.0 else "below 0"
        sides[side].append(name)
    told = [f"{side}: {', '.join(some)}" for side, some in sides.items() if some]
    return f"At p < {ALPHA:g}, {'; '.join(told)}."


def interval(found: Estimate) -> str:
    """Mean and 95 % interval in points."""
    return spread(found, points)


def spread(found: Estimate, shown: Callable[[float], str]) -> str:
    """Mean and 95 % interval in any unit."""
    if not found.count:
        return UNKNOWN
    return f"{shown(found.mean)} ({shown(found.low)} to {shown(found.high)})"


def of_known(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    """The mean of what was measured."""
    return mean([value for value in values if value is not None], shown)


def seeds_of(rows: Iterable[Mapping[int, object]], planned: Sequence[int]) -> str:
    """Over which seeds the tables are; `rows` are those of each arm, by seed."""
    found = sorted({seed for some in rows for seed in some})
    missing = "" if found == list(planned) else f"; planned were {', '.join(map(str, planned))}"
    return f"Over seeds {', '.join(map(str, found)) or 'none'}{missing}."
