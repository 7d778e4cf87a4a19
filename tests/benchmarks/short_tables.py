"""Words of tables that studies of short runs share. Pure text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.benchmarks.sharing_markdown import UNKNOWN, mean, points
from tests.benchmarks.sharing_statistics import Estimate

NOT_RUN = "Not run."


def interval(found: Estimate) -> str:
    """Mean and 95 % interval in points."""
    if not found.count:
        return UNKNOWN
    return f"{points(found.mean)} ({points(found.low)} to {points(found.high)})"


def of_known(values: Sequence[float | None], shown: Callable[[float], str]) -> str:
    """The mean of what was measured."""
    return mean([value for value in values if value is not None], shown)


def seeds_of(rows: Iterable[Mapping[int, object]], planned: Sequence[int]) -> str:
    """Over which seeds the tables are; `rows` are those of each arm, by seed."""
    found = sorted({seed for some in rows for seed in some})
    missing = "" if found == list(planned) else f"; planned were {', '.join(map(str, planned))}"
    return f"Over seeds {', '.join(map(str, found)) or 'none'}{missing}."
