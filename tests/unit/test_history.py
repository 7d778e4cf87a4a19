"""How the rounds went, in a form that is kept at hand: windows, intervals, bounds, restarts."""

from __future__ import annotations

import statistics

import pytest

from swarmnode.observe.history import MOST_POINTS, History
from swarmnode.observe.shown_groups import MOST_CHARACTERS, cut, shown_groups
from tests.unit.dashboard_support import KEY, learned, report
from tests.unit.made import scored


def filled(rounds: int, every: int = 10) -> History:
    made = History()
    for number in range(rounds):
        marks = {"held_out": {"gcd": "10"}} if number % every == 0 else {}
        made.add(report(number, **marks), float(number))
    return made


def test_a_point_is_the_mean_of_the_last_twenty_rounds_with_their_deviation() -> None:
    made = History()
    values = [0.1 * (number % 7) for number in range(30)]
    for number, value in enumerate(values):
        made.add(report(number, **{"reward/local": {"gcd": value}}), 1.0)
    spread = made.points[-1].local
    assert spread
    assert spread.mean == pytest.approx(statistics.fmean(values[-20:]))
    assert spread.high - spread.mean == pytest.approx(statistics.pstdev(values[-20:]))
    first = made.points[0].local
    assert first
    assert (first.low, first.high) == (first.mean, first.mean)


def test_tasks_count_alike_whatever_was_asked_of_them() -> None:
    made = History()
    made.add(report(0, **{"held_out": {"a": "1" * 90 + "0" * 10, "b": "0000"}}), 1.0)
    spread = made.points[0].held_out
    assert spread
    assert spread.mean == pytest.approx(0.45)


def test_the_interval_narrows_with_the_number_of_questions_and_is_wide_for_none_solved() -> None:
    def width(marks: str) -> float:
        made = History()
        made.add(report(0, held_out={"gcd": marks}), 1.0)
        spread = made.points[0].held_out
        assert spread
        return spread.high - spread.low

    assert width("10" * 200) < width("10" * 10) / 3
    assert 0.05 < width("0" * 20) < 0.4
    # p = 0.5 of 100: 1.96 standard errors of (50 + 2) / 104.
    assert width("10" * 50) == pytest.approx(2 * 1.96 * (0.25 / 104) ** 0.5)


def test_any_number_of_rounds_is_bounded_and_keeps_ends_order_and_evaluations() -> None:
    made = filled(20_000)
    numbers = [point.round for point in made.points]
    assert len(numbers) <= MOST_POINTS
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == (0, 19_999)
    assert numbers[-200:] == list(range(19_800, 20_000))
    assert sum(point.held_out is not None for point in made.points) > 150
    assert len(filled(5000, every=1).points) <= MOST_POINTS


def test_a_round_that_is_done_again_after_a_crash_replaces_what_came_of_it_first() -> None:
    made = filled(10)
    made.add(report(7, **{"reward/local": {"gcd": 1.0}}), 99.0)
    assert [point.round for point in made.points] == [0, 1, 2, 3, 4, 5, 6, 7]
    assert made.points[-1].ended == 99.0


def test_who_knows_how_many_were_added_is_given_what_is_new_and_no_more() -> None:
    made = filled(5)
    known = made.added
    assert made.since(known) == []
    made.add(report(5), 1.0)
    made.add(report(6), 1.0)
    assert [point.round for point in made.since(known)] == [5, 6]
    assert len(made.since(0)) == 7


def test_what_peers_gave_is_summed_over_the_last_rounds() -> None:
    assert filled(10).groups_of_peers(3) == {KEY[:8].hex(): 6}


def test_own_and_peers_groups_take_turns_and_what_teaches_comes_first() -> None:
    groups, trained = learned()
    shown = shown_groups(5, groups, trained)
    assert [(each.publisher, each.question) for each in shown] == [
        ("own", "2 + 2 ="),
        (KEY[:8].hex(), "2 + 3 ="),
        ("own", "2 + 1 ="),
    ]
    assert [each.advantage for each in shown[0].completions] == [0.7, -0.7]
    assert [each.advantage for each in shown[1].completions] == [None, None]
    assert [each.success for each in shown[1].completions] == [False, True]


def test_shown_groups_are_bounded_in_number_and_length() -> None:
    groups, trained = learned()
    groups, many = [groups[1]] * 40, [trained.groups[1]] * 40
    step = type(trained)({}, many, [[0.7, -0.7]] * 40)
    assert len(shown_groups(1, groups, step)) == 4
    wide = scored([1.0] + [0.0] * 63, source="local")
    (shown,) = shown_groups(1, [wide], type(trained)({}, many[:1], [[0.0] * 64]))
    assert (len(shown.completions), shown.more) == (8, 56)
    assert len(cut("x" * 10_000)) < MOST_CHARACTERS + 10


def test_a_step_that_told_nothing_of_its_groups_shows_none() -> None:
    groups, trained = learned()
    assert shown_groups(1, [], type(trained)({})) == []
    assert len(shown_groups(1, groups, type(trained)({}, trained.groups))) == 3
