"""What the weight benchmark makes of its times, and what it sends."""

from __future__ import annotations

import math

from tests.benchmarks.weight_sync import Times, ratio, rows_of
from tests.benchmarks.weight_sync_model import LAYERS, shapes


def times(**changed: list[float]) -> Times:
    names = ("copy", "shared-memory publish", "shared-memory take", "contiguous", "broadcast")
    more = ("gathered", "folder publish", "folder take", "http", "checksum")
    return {name: [0.1, 0.1, 0.1] for name in (*names, *more)} | changed


def test_the_shapes_are_those_of_135_million_parameters() -> None:
    assert sum(map(math.prod, shapes(LAYERS).values())) == 134_515_008


def test_a_ratio_is_the_median_over_the_repeats_and_not_of_the_medians() -> None:
    assert ratio(times(copy=[1, 2, 100], broadcast=[2, 3, 100]), "broadcast", "copy") == 1.5


def test_a_bound_that_is_passed_is_missed() -> None:
    def verdicts(found: Times) -> list[str]:
        return [row[-1] for row in rows_of("", 1, found)[1]]

    assert verdicts(times()) == ["met"] * 4 + [""] * 2
    slow = {"shared-memory publish": [0.12] * 3, "broadcast": [0.16] * 3}
    assert verdicts(times() | slow) == ["missed", "met", "missed", "met", "", ""]
