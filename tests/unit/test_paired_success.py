"""The difference in success and the win rate: against formulas, against scipy, and by simulation of
how often the interval holds the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from swarmnode.pass_rates import NORMAL_95, Values, success_difference, win_rate

ROUNDS = 400


def from_cells(both: int, first: int, second: int, neither: int) -> tuple[Values, Values]:
    """One answer to each question of one task, by who was right."""
    cells = [(1.0, 1.0)] * both + [(1.0, 0.0)] * first + [(0.0, 1.0)] * second
    cells += [(0.0, 0.0)] * neither
    return {"a": [a for a, _ in cells]}, {"a": [b for _, b in cells]}


@pytest.mark.parametrize("cells", [(40, 12, 6, 42), (0, 3, 0, 7), (50, 0, 0, 50), (9, 1, 1, 9)])
def test_one_answer_a_question_gives_the_adjusted_interval_of_agresti_and_min(
    cells: tuple[int, int, int, int],
) -> None:
    both, first, second, neither = (each + 0.5 for each in cells)
    count = both + first + second + neither
    centre = (first - second) / count
    wald = math.sqrt((first + second - (first - second) ** 2 / count) / (count * (count - 1)))
    found = success_difference(*from_cells(*cells))
    assert found.mean == pytest.approx((cells[1] - cells[2]) / sum(cells))
    assert found.low == pytest.approx(centre - NORMAL_95 * wald)
    assert found.high == pytest.approx(min(1.0, centre + NORMAL_95 * wald))


def test_many_questions_give_the_interval_of_a_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.binomial(8, 0.5, 600) / 8, rng.binomial(8, 0.4, 600) / 8
    test = stats.ttest_rel(a, b).confidence_interval(0.95)
    found = success_difference({"a": list(a)}, {"a": list(b)})
    assert (found.low, found.high) == pytest.approx((test.low, test.high), abs=1e-3)


def test_tasks_count_equally_and_their_variances_add() -> None:
    rng = np.random.default_rng(4)
    a = {"x": list(rng.binomial(1, 0.7, 900)), "y": list(rng.binomial(1, 0.3, 300))}
    b = {"x": list(rng.binomial(1, 0.5, 900)), "y": list(rng.binomial(1, 0.3, 300))}
    gaps = [np.subtract(a[task], b[task]) for task in a]
    error = math.sqrt(sum(gap.var(ddof=1) / len(gap) for gap in gaps)) / 2
    found = success_difference(a, b)
    assert found.mean == pytest.approx(sum(gap.mean() for gap in gaps) / 2)
    assert (found.high - found.low) / 2 == pytest.approx(NORMAL_95 * error, rel=0.01)


def test_two_that_never_differed_are_not_proved_equal() -> None:
    found = success_difference(*from_cells(10, 0, 0, 10))
    assert found.mean == 0.0
    assert found.low == -found.high
    assert found.high == pytest.approx(NORMAL_95 / math.sqrt(22 * 21))


def held(
    tasks: int,
    questions: int,
    samples: int,
    gap: float,
    spread: float = 1.0,
    by_answer: bool = False,
) -> float:
    """How often the interval holds the true difference.

    Questions are hard or easy for both alike (a beta distribution); how much the first policy is
    ahead varies by question with `spread`. by_answer: every answer counted as a question of its
    own, which it isn't.
    """
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(ROUNDS):
        a, b = {}, {}
        for task in map(str, range(tasks)):
            hard = rng.beta(0.8, 0.8, questions)
            ahead = gap + spread * rng.choice([-0.3, 0.3], questions)
            low, high = 0.5 * hard + 0.25 - ahead / 2, 0.5 * hard + 0.25 + ahead / 2
            right = [rng.random((samples, questions)) < np.clip(each, 0, 1) for each in (high, low)]
            a[task], b[task] = (
                [float(one) for one in (each.ravel() if by_answer else each.mean(axis=0))]
                for each in right
            )
        found = success_difference(a, b)
        inside += found.low <= gap <= found.high
    return inside / ROUNDS


@pytest.mark.parametrize(
    ("tasks", "questions", "samples", "gap"),
    [(1, 20, 1, 0.0), (1, 10, 4, 0.1), (3, 40, 8, 0.1), (9, 5, 4, 0.0), (9, 3, 1, 0.1)],
)
def test_the_interval_holds_the_truth_as_often_as_it_says(
    tasks: int, questions: int, samples: int, gap: float
) -> None:
    # 95 % of 400: at least 0.92 and not for being much too wide.
    assert 0.92 <= held(tasks, questions, samples, gap) <= 0.99


def test_answers_to_one_question_are_no_questions_of_their_own() -> None:
    assert held(1, 40, 16, 0.1, by_answer=True) < 0.85
    assert held(1, 40, 16, 0.1) >= 0.92


def test_rare_differences_are_covered_where_a_plain_interval_is_not() -> None:
    """Twenty questions of which one in fifty is answered differently: mostly, none differs."""
    rng = np.random.default_rng(9)
    inside = plain = 0
    for _ in range(ROUNDS):
        gaps = rng.choice([1.0, 0.0], 20, p=[0.02, 0.98])
        found = success_difference({"a": list(gaps)}, {"a": [0.0] * 20})
        inside += found.low <= 0.02 <= found.high
        half = NORMAL_95 * gaps.std(ddof=1) / math.sqrt(20)
        plain += gaps.mean() - half <= 0.02 <= gaps.mean() + half
    assert inside / ROUNDS >= 0.95
    assert plain / ROUNDS < 0.5


def test_the_win_rate_counts_ties_half() -> None:
    cells = (40, 12, 6, 42)
    rate = win_rate(success_difference(*from_cells(*cells)))
    assert rate.mean == pytest.approx((12 + 0.5 * 82) / 100)
    assert 0.5 < rate.mean < rate.high < 1


def test_one_question_has_no_interval_and_none_has_no_mean() -> None:
    found = success_difference({"a": [1.0]}, {"a": [0.0]})
    assert found.mean == 1.0
    assert math.isnan(found.low)
    assert math.isnan(win_rate(found).high)
    assert math.isnan(success_difference({"a": []}, {"a": []}).mean)


def test_all_won_and_all_lost_stay_within_what_can_be() -> None:
    won = success_difference({"a": [1.0] * 5}, {"a": [0.0] * 5})
    assert won.high == 1.0
    assert 0 < won.low < 1
    lost = success_difference({"a": [0.0] * 5}, {"a": [1.0] * 5})
    assert (lost.mean, lost.low) == (-1.0, -1.0)
    assert lost.high == pytest.approx(-won.low)


def test_unlike_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="same tasks"):
        success_difference({"a": [1.0, 0.0]}, {"b": [1.0, 0.0]})
