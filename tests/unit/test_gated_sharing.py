"""What is said of the gate's cost to sharing follows from the runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.benchmarks.gated_sharing import GATED_ARM, KEPT, GatedRow, block, margin, verdict
from tests.benchmarks.sharing_protocol import REFERENCE_ARM, SHARING_ARM


def rows(gains: Mapping[int, float]) -> list[GatedRow]:
    """Alone at 0.4, sharing at 0.5 and the gate's gain by seed."""
    return [
        GatedRow(arm=arm, seed=seed, end=0.4 + gain, measured=10.0, over=1.0)
        for seed, gated in gains.items()
        for arm, gain in ((REFERENCE_ARM, 0.0), (SHARING_ARM, 0.1), (GATED_ARM, gated))
    ]


def test_the_margin_is_what_is_left_beyond_four_fifths() -> None:
    assert margin(rows({1: 0.1, 2: 0.1}), KEPT).mean == pytest.approx(0.02)
    assert margin(rows({1: 0.08, 2: 0.08}), KEPT).mean == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("gains", "said"),
    [
        ({1: 0.10, 2: 0.101, 3: 0.099}, "may be enforced"),
        ({1: 0.02, 2: 0.021, 3: 0.019}, "should not be enforced"),
        ({1: 0.02, 2: 0.14, 3: 0.1}, "don't tell"),
        ({1: 0.1}, "Too few"),
    ],
)
def test_the_verdict_follows_the_interval(gains: Mapping[int, float], said: str) -> None:
    assert said in verdict(rows(gains))
    assert said in block(rows(gains))
