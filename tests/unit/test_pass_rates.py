"""pass@k and the intervals: against counting, against theory, and in what they cannot know."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from swarmnode.pass_rates import Interval, difference, interval, pass_at_k


def counted(samples: int, right: int, k: int) -> float:
    """The share of all choices of k answers that hold a right one."""
    choices = list(combinations([1] * right + [0] * (samples - right), k))
    return sum(map(max, choices)) / len(choices)


@pytest.mark.parametrize("samples", range(1, 8))
def test_pass_at_k_is_the_share_of_choices_that_hold_a_right_answer(samples: int) -> None:
    for right in range(samples + 1):
        for k in range(1, samples + 1):
            assert pass_at_k(samples, right, k) == pytest.approx(counted(samples, right, k))


def test_pass_at_k_is_unbiased_where_the_share_of_right_answers_is_not() -> None:
    chance, samples, k = 0.15, 8, 4
    of = [math.comb(samples, c) * chance**c * (1 - chance) ** (samples - c) for c in range(9)]
    truth = 1 - (1 - chance) ** k
    assert sum(p * pass_at_k(samples, c, k) for c, p in enumerate(of)) == pytest.approx(truth)
    naive = sum(p * (1 - (1 - c / samples) ** k) for c, p in enumerate(of))
    assert naive < truth - 0.01


def test_pass_at_k_of_many_answers_is_still_a_number() -> None:
    assert 0.999 < pass_at_k(1000, 500, 100) <= 1.0


@pytest.mark.parametrize("k", [0, -1, 9])
def test_pass_at_k_of_more_answers_than_there_are_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match="needs at least"):
        pass_at_k(8, 1, k)


def test_tasks_count_equally_whatever_their_questions() -> None:
    assert interval({"a": [1.0] * 30, "b": [0.0, 0.0]}).mean == 0.5


def test_the_interval_of_a_share_is_as_wide_as_theory_says() -> None:
    found = interval({"a": [1.0] * 60 + [0.0] * 140})
    half = 1.96 * math.sqrt(0.3 * 0.7 / 200)
    assert found.mean == pytest.approx(0.3)
    assert found.low == pytest.approx(0.3 - half, abs=0.01)
    assert found.high == pytest.approx(0.3 + half, abs=0.01)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        found = interval({task: list(rng.random(40) < 0.4) for task in ("a", "b", "c")})
        held += found.low <= 0.4 <= found.high
    assert 180 <= held <= 198


def test_pairing_tells_a_small_gain_from_hard_and_easy_questions() -> None:
    before = [0.0] * 100 + [1.0] * 100
    after = [1.0] * 12 + [0.0] * 88 + [1.0] * 100
    found = difference({"a": before}, {"a": after})
    assert found.mean == pytest.approx(0.06)
    assert found.low > 0.02
    apart = interval({"a": after}).low - interval({"a": before}).high
    assert apart < 0


def test_what_is_equal_differs_by_nothing() -> None:
    assert difference({"a": [0.0, 1.0]}, {"a": [0.0, 1.0]}) == Interval(0.0, 0.0, 0.0)


def test_the_same_values_give_the_same_interval() -> None:
    values = {"a": [0.0, 1.0, 1.0], "b": [1.0, 0.0]}
    assert interval(values) == interval(values)


def test_one_question_has_a_mean_and_no_interval() -> None:
    found = interval({"a": [1.0]})
    assert found.mean == 1.0
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert math.isnan(interval({}).mean)


def test_other_questions_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        difference({"a": [1.0]}, {"b": [1.0]})
    with pytest.raises(ValueError, match="zip"):
        difference({"a": [1.0]}, {"a": [1.0, 0.0]})
