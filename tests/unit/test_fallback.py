"""Held-out success that falls while peers' groups are trained on: own groups alone, and back."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import pytest

from swarmnode.selection.fallback import LONGEST, Fallback, fall, marks_of
from swarmnode.types import Evaluation

QUESTIONS = 180


def evaluation(rate: float, seed: int = 0, questions: int = QUESTIONS) -> Evaluation:
    """As of a policy that solves each question with that chance, independent of other seeds."""
    rng = random.Random(seed)

    def marks() -> dict[str, str]:
        half = questions // 2
        return {
            task: "".join("1" if rng.random() < rate else "0" for _ in range(half))
            for task in ("a", "b")
        }

    return Evaluation(marks(), marks())


def machine(**changes: float) -> Fallback:
    settings = {"drop": 0.02, "deviations": 3.0, "evaluations": 4, "enabled": True, **changes}
    return Fallback(**settings)  # type: ignore[arg-type]  # as the settings have them


def told(
    fallback: Fallback, rates: Sequence[float], *, external: bool, start: int = 0
) -> list[bool]:
    """Whether own groups alone are trained on after each evaluation of such rates."""
    active = []
    for number, rate in enumerate(rates):
        used = external and not fallback.active
        fallback.heard(evaluation(rate, start + number), external=used)
        active.append(fallback.active)
    return active


def test_a_fall_is_a_paired_difference_in_its_own_standard_errors() -> None:
    before, now = (1.0, 1.0, 0.5, 0.0), (0.5, 1.0, 0.0, 0.0)
    found = fall([before], [now])
    assert found.drop == pytest.approx(0.25)
    assert found.deviations == pytest.approx(0.25 / (0.28867513 / 2))
    assert fall([before, now], [now, before]).drop == 0.0
    assert fall([before], [before]).deviations == 0.0
    assert fall([(1.0, 1.0)], [(0.0, 0.0)]).deviations == 1000.0
    with pytest.raises(ValueError, match="nothing"):
        fall([], [now])


def test_marks_are_questions_in_the_order_of_task_names_whatever_the_order_told() -> None:
    one = Evaluation({"b": "10", "a": "01"}, {"a": "11", "b": "00"})
    assert marks_of(one) == (0.5, 1.0, 0.5, 0.0)


def test_a_large_fall_with_peers_in_training_is_seen_at_once_and_a_small_one_never() -> None:
    assert told(machine(), [0.6, 0.6, 0.35], external=True)[-1]
    assert not any(told(machine(), [0.6, 0.6, 0.59, 0.6, 0.58, 0.59], external=True))


def test_without_peers_in_training_nobody_is_to_blame() -> None:
    assert not any(told(machine(), [0.6, 0.6, 0.3, 0.2], external=False))


def test_chance_alone_hardly_ever_is_a_fall() -> None:
    false_alarms = sum(
        any(told(machine(), [0.5] * 12, external=True, start=1000 * run)) for run in range(60)
    )
    assert false_alarms <= 3


def test_what_was_lost_and_regained_brings_peers_back_at_once() -> None:
    fallback = machine()
    assert told(fallback, [0.6, 0.6, 0.35, 0.58, 0.6], external=True) == [
        False,
        False,
        True,
        True,  # the mean of two evaluations still holds the fall
        False,
    ]
    assert fallback.figures()["fallback/falls"] == 1.0


def test_what_is_not_regained_brings_them_back_after_the_pause_which_doubles_with_each_fall() -> (
    None
):
    fallback = machine()
    told(fallback, [0.8, 0.8], external=True)
    pauses = []
    for number, rate in enumerate((0.6, 0.4, 0.2)):
        start = 100 * (number + 1)
        assert told(fallback, [rate] * 2, external=True, start=start)[-1]
        pause = 0
        while fallback.active:
            told(fallback, [rate], external=True, start=start + 10 + pause)
            pause += 1
        pauses.append(pause)
    assert pauses[0] in (3, 4)
    assert pauses[1] in (7, 8)
    assert pauses[2] in (15, 16)


def test_the_pause_is_short_again_after_a_long_time_without_a_fall() -> None:
    fallback = machine(evaluations=1)
    told(fallback, [0.8, 0.8, 0.5, 0.5, 0.5], external=True)
    assert fallback.to_values()["pause"] == 2
    told(fallback, [0.5] * LONGEST, external=True, start=50)
    assert fallback.to_values()["pause"] == 1


def test_where_it_is_switched_off_the_fall_is_told_of_and_nothing_follows() -> None:
    fallback = machine(enabled=False)
    assert not any(told(fallback, [0.6, 0.6, 0.3], external=True))
    assert fallback.figures()["fallback/falls"] == 1.0
    assert fallback.figures()["fallback/drop"] > 0.1


def test_a_fallback_goes_on_after_a_restart_and_begins_anew_where_other_questions_are_asked() -> (
    None
):
    fallback = machine()
    told(fallback, [0.6, 0.6, 0.3], external=True)
    again = machine()
    again.restore(json.loads(json.dumps(fallback.to_values())))
    assert again.active
    assert again.to_values() == fallback.to_values()
    for broken in (None, {}, {"best": 3}, {**fallback.to_values(), "left": "soon"}):
        untouched = machine()
        untouched.restore(broken)
        assert untouched.to_values() == machine().to_values()
    other = machine()
    told(other, [0.9, 0.9], external=True)
    other.heard(evaluation(0.1, questions=60), external=True)
    assert not other.active
