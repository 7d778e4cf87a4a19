"""Intervals, paired tests, Holm's adjustment and the choice of the learning rate."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy import stats

from tests.benchmarks.sharing_statistics import (
    by_seed,
    choose_rate,
    compare,
    estimate,
    held_out_gain,
    holm,
    paired_differences,
)
from tests.unit.sharing_support import row

ENDS = {100: 0.104, 101: 0.131, 102: 0.088, 103: 0.12, 104: 0.09, 105: 0.117}
OTHERS = {100: 0.101, 101: 0.11, 102: 0.089, 103: 0.095, 104: 0.08, 105: 0.121}


def test_interval_and_p_of_a_hand_computed_example() -> None:
    # Values 1, 2, 3: mean 2, standard deviation 1, error 1/√3; t = 3.4641 with 2 degrees of
    # freedom. Their t has a closed form: p = 1 - t/√(t² + 2), and the quantile is 4.302653.
    result = estimate([1.0, 2.0, 3.0])
    assert (result.mean, result.count) == (2.0, 3)
    assert result.low == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert result.high == pytest.approx(2 + 4.302653 / math.sqrt(3), abs=1e-5)
    assert result.p == pytest.approx(1 - math.sqrt(12 / 14))


def test_interval_and_p_are_those_of_scipys_paired_t_test() -> None:
    result = compare(
        [row(seed=seed, end=end) for seed, end in ENDS.items()],
        [row("8/0 positive", seed=seed, end=end) for seed, end in OTHERS.items()],
    )
    expected: Any = stats.ttest_rel(list(ENDS.values()), list(OTHERS.values()))
    interval = expected.confidence_interval(0.95)
    assert result.p == pytest.approx(expected.pvalue)
    assert [result.low, result.high] == pytest.approx([interval.low, interval.high])
    assert 0.01 < result.p < 0.2


def test_too_few_values_give_no_interval_and_equal_ones_a_certain_one() -> None:
    none, one = estimate([]), estimate([0.5])
    assert none.count == 0
    assert math.isnan(none.mean)
    assert one.mean == 0.5
    assert all(map(math.isnan, (one.low, one.high, one.p, none.p)))
    same, zero = estimate([0.5, 0.5]), estimate([0.0, 0.0, 0.0])
    assert (same.low, same.high, same.p) == (0.5, 0.5, 0.0)
    assert (zero.low, zero.high, zero.p) == (0.0, 0.0, 1.0)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        estimate([0.1, value])
    with pytest.raises(ValueError, match=r"seed 100: a figure is missing in 8/0 \(main\)"):
        compare([row(end=value)], [row("4/4 both")])


def test_runs_are_paired_by_seed_not_by_order() -> None:
    runs = [row("4/4 both", seed, end=end) for seed, end in ENDS.items()]
    others = [row(seed=seed, end=end) for seed, end in reversed(OTHERS.items())]
    differences = paired_differences(runs, others)
    assert differences == {seed: ENDS[seed] - OTHERS[seed] for seed in ENDS}


def test_any_figure_can_be_compared() -> None:
    runs, others = [row("4/4 both", start=0.03, end=0.1)], [row(start=0.05, end=0.1)]
    assert compare(runs, others).mean == 0.0
    assert compare(runs, others, held_out_gain).mean == pytest.approx(0.02)


def test_unequal_seeds_are_refused_by_name() -> None:
    runs, others = [row("4/4 both", seed=100)], [row(seed=100), row(seed=101)]
    message = r"4/4 both \(main\) has \[100\], 8/0 \(main\) \[100, 101\]"
    with pytest.raises(ValueError, match=message):
        compare(runs, others)
    with pytest.raises(ValueError, match=r"nothing has \[\]"):
        compare([], others)


def test_only_like_runs_are_compared() -> None:
    assert compare([row("6/2", stage="mixes")], [row()]).mean == 0.0
    with pytest.raises(ValueError, match=r"200 rounds with 8/0 \(long\) over 400"):
        compare([row("4/4 both", stage="long")], [row(stage="long", rounds=400)])
    with pytest.raises(ValueError, match=r"cannot compare 8/0 \(loophole\)"):
        compare([row(stage="loophole")], [row()])


def test_one_arm_is_one_run_a_seed_and_equal_but_for_it() -> None:
    with pytest.raises(ValueError, match="seed 100 comes twice"):
        by_seed([row(), row()])
    with pytest.raises(ValueError, match="differ in more than the seed"):
        by_seed([row(), row(seed=101, rate=1e-3)])
    assert list(by_seed([row(seed=101), row(seed=100)])) == [100, 101]


def test_holm_on_a_textbook_example() -> None:
    # 4 × 0.005, then 3 × 0.01, then 2 × 0.03, then 0.04 lifted to what came before it.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.7, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_comparison_that_is_missing_counts_in_holms_family() -> None:
    adjusted = holm([0.01, math.nan, 0.02])
    assert adjusted[::2] == pytest.approx([0.03, 0.04])
    assert math.isnan(adjusted[1])
    with pytest.raises(ValueError, match="p values"):
        holm([1.2])


def development(means: dict[float, float]) -> list[Any]:
    return [
        row(seed=seed, end=mean + shift, rate=rate, stage="development")
        for rate, mean in means.items()
        for seed, shift in ((0, -0.25), (1, 0.0), (2, 0.25))
    ]


@pytest.mark.parametrize(
    ("means", "rate", "at_edge"),
    [
        pytest.param({1e-4: 0.25, 3e-4: 0.5, 1e-3: 0.25}, 3e-4, False, id="in the middle"),
        pytest.param({1e-4: 0.25, 3e-4: 0.5, 1e-3: 0.75}, 1e-3, True, id="upper edge"),
        pytest.param({1e-4: 0.75, 3e-4: 0.5, 1e-3: 0.25}, 1e-4, True, id="lower edge"),
        pytest.param({1e-3: 0.5, 3e-4: 0.5, 1e-4: 0.25}, 3e-4, False, id="tie"),
        pytest.param({3e-4: 0.5}, 3e-4, False, id="no grid"),
    ],
)
def test_the_rate_of_the_highest_mean_is_chosen(
    means: dict[float, float], rate: float, at_edge: bool
) -> None:
    elsewhere = row(seed=0, end=1.0, rate=1e-4)
    choice = choose_rate([*development(means), elsewhere], "8/0", list(means), (0, 1, 2))
    assert (choice.rate, choice.at_edge, choice.means) == (rate, at_edge, means)


def test_a_rate_is_not_chosen_on_part_of_the_development_runs() -> None:
    rows = development({1e-4: 0.25, 3e-4: 0.5})
    with pytest.raises(ValueError, match=r"8/0 at rate 0.0003: seeds \[0, 1\], not \[0, 1, 2\]"):
        choose_rate(rows[:-1], "8/0", (1e-4, 3e-4), (0, 1, 2))
    with pytest.raises(ValueError, match="finite"):
        choose_rate(development({1e-4: math.nan}), "8/0", (1e-4,), (0, 1, 2))
    with pytest.raises(ValueError, match="no rates"):
        choose_rate(rows, "8/0", (), (0, 1, 2))
