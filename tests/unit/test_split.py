"""What lies between generation and training: numbers of weights, the queue, the throttle."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.split.pace import Pace
from swarmnode.split.ready import Dropped, Limits, ReadyQueue
from swarmnode.split.throttle import TRIAL_FACTOR, Situation, permitted
from swarmnode.split.versions import Versions, carried
from swarmnode.types import PolicyInfo, Scored
from tests.unit.made import scored

IDLE = Situation(
    questions=4,
    versions_per_round=1,
    max_lag=4,
    max_age=100.0,
    capacity=1000,
    waiting=0,
    in_hand=0,
    under_way=0,
    training=False,
    lag=0,
    others=False,
    round_seconds=None,
    group_seconds=None,
    waited=0.0,
    left=None,
)


def of_version(version: int, index: int = 0) -> Scored:
    one = scored(index=index, source="local")
    return replace(one, group=replace(one.group, policy=PolicyInfo("tiny", version, b"")))


@given(st.lists(st.sampled_from(["step", "save", "lose"]), max_size=60))
def test_numbers_of_weights_never_go_back_whatever_is_lost(events: list[str]) -> None:
    versions, steps, saved = Versions(), 0, 0
    numbers = [versions.newest]
    for event in events:
        match event:
            case "step":
                steps += 1
                numbers.append(versions.trained(steps))
            case "save":
                saved = steps
            case "lose":
                steps = saved
                numbers.append(versions.went_back(steps))
    assert numbers == sorted(set(numbers))
    assert versions.lag(numbers[-1]) == 0


def test_a_number_is_the_count_of_steps_as_long_as_nothing_is_lost() -> None:
    versions = Versions()
    assert [versions.trained(steps) for steps in (1, 2, 2, 6)] == [1, 2, 2, 6]
    assert versions.lag(2) == 4


def test_the_lag_of_lost_weights_is_the_way_back_to_the_checkpoint_and_on_from_there() -> None:
    versions = Versions()
    versions.trained(57)
    assert versions.went_back(50) == 58
    # 57 is seven steps beyond the checkpoint, which is where the policy is again; 48 is before it.
    assert [versions.lag(number) for number in (58, 57, 52, 50, 48)] == [0, 7, 2, 0, 2]
    assert versions.trained(53) == 61
    assert [versions.lag(number) for number in (61, 58, 57, 50, 48)] == [0, 3, 10, 3, 5]


def test_the_lag_over_several_losses_is_the_way_back_to_what_both_have_in_common() -> None:
    versions = Versions()
    versions.trained(57)
    versions.went_back(50)
    # Lost at once again, before it took a step: 57 is as far away as before.
    assert versions.went_back(50) == 59
    assert [versions.lag(number) for number in (59, 58, 57, 50, 48)] == [0, 0, 7, 0, 2]
    versions.trained(52)
    assert versions.went_back(40) == 62
    assert [versions.lag(number) for number in (62, 61, 59, 57, 40, 38)] == [0, 12, 10, 17, 0, 2]


@given(st.lists(st.sampled_from(["step", "save", "lose", "lose"]), max_size=60))
def test_the_lag_is_what_a_tree_of_steps_says(events: list[str]) -> None:
    versions = Versions()
    saved: tuple[int, ...] = (0,)
    now = saved
    seen = {0: now}
    for identity, event in enumerate(events, 1):
        match event:
            case "step":
                now = (*now, identity)
                seen[versions.trained(len(now) - 1)] = now
            case "save":
                saved = now
            case "lose":
                now = saved
                seen[versions.went_back(len(now) - 1)] = now
    for number, then in seen.items():
        common = sum(1 for ours, theirs in zip(now, then, strict=False) if ours == theirs)
        assert versions.lag(number) == len(now) + len(then) - 2 * common


def test_the_numbers_of_many_losses_take_no_memory() -> None:
    versions = Versions()
    for _ in range(10_000):
        versions.went_back(0)
    assert versions.lag(5) == 9_995
    assert len(pickle.dumps(versions)) < 20_000


def test_a_new_life_goes_on_above_all_that_was_seen_of_the_last() -> None:
    first = Versions()
    first.trained(57)
    first.went_back(50)
    first.trained(51)
    saved = first.to_values()
    first.trained(55)
    # It ended in order after the checkpoint at 51, or was killed at 55.
    ended, killed = Versions(), Versions()
    ended.restore(saved, steps=51, seen=59)
    assert ended.newest == 59
    killed.restore(saved, steps=51, seen=first.newest)
    assert killed.newest > first.newest
    assert killed.lag(killed.newest) == 0
    anew = Versions()
    anew.restore({}, steps=0, seen=0)
    assert anew.newest == 0
    # A round of four steps was published and not told of.
    several = Versions(per_round=4)
    several.restore(saved, steps=51, seen=63)
    assert several.newest > 67
    assert several.trained(52) == several.newest


def test_the_offset_outlasts_a_life_in_which_nothing_is_apart() -> None:
    first = Versions()
    first.trained(57)
    first.went_back(50)
    assert carried({"round": 3, **first.to_values()}) == first.to_values() == {"version_offset": 8}
    assert carried({"round": 3}) == carried(None) == {}


def test_each_group_leaves_the_queue_once_the_oldest_version_first() -> None:
    queue = ReadyQueue(Limits(lag=10, age_seconds=100.0))
    queue.put([of_version(3, index) for index in (0, 1)], begun=1.0)
    queue.put([of_version(2, index) for index in (2, 3)], begun=0.0)
    taken = [*queue.take(3, 2.0, lambda _: 0), *queue.take(3, 2.0, lambda _: 0)]
    assert [each.scored.group.question.index for each in taken] == [2, 3, 0, 1]
    assert len(queue) == 0
    assert queue.take(1, 2.0, lambda _: 0) == []
    queue.put([of_version(4, 4)], begun=2.0)
    queue.put_back(taken)
    again = queue.take(9, 2.0, lambda _: 0)
    assert [each.scored.group.question.index for each in again] == [2, 3, 0, 1, 4]
    assert (queue.put_in, sum(queue.dropped.values())) == (5, 0)


def test_what_is_too_far_behind_or_too_old_is_dropped_by_its_reason_and_others_take_its_place() -> (
    None
):
    queue = ReadyQueue(Limits(lag=2, age_seconds=10.0))
    queue.put([of_version(1, 0)], begun=0.0)
    queue.put([of_version(3, 1)], begun=-5.1)
    queue.put([of_version(3, 2), of_version(4, 3)], begun=4.9)
    (one, other) = queue.take(2, now=5.0, lag=lambda version: 4 - version)
    assert [each.scored.group.question.index for each in (one, other)] == [2, 3]
    assert queue.dropped == Counter({Dropped.LAG: 1, Dropped.AGE: 1})


def test_what_was_taken_and_not_begun_becomes_stale_as_what_waits_does() -> None:
    queue = ReadyQueue(Limits(lag=2, age_seconds=10.0))
    queue.put([of_version(3, 0), of_version(3, 1)], begun=0.0)
    taken = queue.take(2, 5.0, lambda _: 0)
    assert queue.fresh(taken, 10.0, lambda _: 2) == taken
    assert queue.fresh(taken[:1], 10.1, lambda _: 2) == []
    assert queue.fresh(taken[1:], 10.0, lambda _: 3) == []
    assert queue.dropped == Counter({Dropped.AGE: 1, Dropped.LAG: 1})


def test_what_was_sampled_before_a_rollback_is_dropped_even_if_it_comes_later() -> None:
    queue = ReadyQueue(Limits(lag=100, age_seconds=100.0))
    queue.put([of_version(5)], begun=0.0)
    queue.forget_before(7)
    queue.put([of_version(6), of_version(7)], begun=1.0)
    assert [each.version for each in queue.take(9, 1.0, lambda _: 0)] == [7]
    assert queue.dropped[Dropped.ROLLED_BACK] == 2


def test_a_batch_may_be_begun_as_long_as_its_last_group_is_fresh_in_its_turn() -> None:
    # Rounds of four: the last of these groups is trained on after `rounds` others, each a version.
    for waiting, under_way, training, rounds in (
        (0, 0, False, 0),
        (4, 0, False, 1),
        (4, 4, True, 3),
        (8, 4, True, 4),
        (8, 8, True, 5),
    ):
        now = replace(IDLE, waiting=waiting, under_way=under_way, training=training)
        assert permitted(replace(now, max_lag=rounds)) == 4
        assert permitted(replace(now, max_lag=rounds - 1)) == 0


def test_the_batch_is_cut_to_what_is_fresh_has_room_and_is_still_wanted() -> None:
    assert permitted(replace(IDLE, waiting=2, max_lag=0)) == 2
    assert permitted(replace(IDLE, waiting=7, capacity=8)) == 1
    assert permitted(replace(IDLE, waiting=8, capacity=8)) == 0
    assert permitted(replace(IDLE, waiting=1, in_hand=2, left=6)) == 3
    assert permitted(replace(IDLE, left=0)) == 0


def test_a_round_that_has_all_it_needs_and_asks_on_is_as_near_as_before() -> None:
    assert permitted(replace(IDLE, in_hand=8, max_lag=1)) == 4
    assert permitted(replace(IDLE, in_hand=8, max_lag=0, waiting=1)) == 0


def test_a_round_of_several_steps_counts_as_many_versions() -> None:
    now = replace(IDLE, waiting=4, max_lag=4)
    assert permitted(replace(now, versions_per_round=4)) == 4
    assert permitted(replace(now, versions_per_round=5)) == 0
    assert permitted(replace(now, versions_per_round=5, waiting=2)) == 2


def test_old_weights_leave_less_room() -> None:
    assert permitted(replace(IDLE, waiting=8, max_lag=4, lag=2)) == 4
    assert permitted(replace(IDLE, waiting=8, max_lag=4, lag=3)) == 0


def test_nothing_is_begun_that_would_be_too_old_in_its_turn() -> None:
    now = replace(IDLE, waiting=8, round_seconds=10.0, group_seconds=1.0)
    assert permitted(replace(now, max_age=24.0)) == 4
    assert permitted(replace(now, max_age=22.0)) == 2
    assert permitted(replace(now, max_age=20.0)) == 0
    # Nothing is ready: what it needs is known from the past alone.
    assert permitted(replace(now, waiting=0, max_age=0.5)) == 1
    assert permitted(replace(now, waiting=0, max_age=0.5, training=True)) == 0
    assert permitted(replace(now, waiting=0, max_age=0.5, lag=5)) == 0


def test_a_slow_generator_among_others_gets_less_and_a_lone_one_is_waited_for() -> None:
    slow = replace(IDLE, round_seconds=1.0, group_seconds=1.6)
    assert permitted(slow) == 4
    assert permitted(replace(slow, others=True)) == 2
    too_slow = replace(slow, others=True, group_seconds=5.0, under_way=1)
    assert permitted(too_slow) == 0
    assert permitted(replace(too_slow, under_way=0)) == 1
    assert permitted(replace(too_slow, waited=TRIAL_FACTOR * 5.0 - 1.0)) == 0
    assert permitted(replace(too_slow, waited=TRIAL_FACTOR * 5.0)) == 1


@given(
    st.builds(
        Situation,
        questions=st.integers(1, 8),
        versions_per_round=st.integers(1, 4),
        max_lag=st.integers(0, 8),
        max_age=st.floats(1.0, 1e9),
        capacity=st.integers(1, 64),
        waiting=st.just(0),
        in_hand=st.integers(0, 64),
        under_way=st.just(0),
        training=st.just(False),
        lag=st.just(0),
        others=st.booleans(),
        round_seconds=st.none() | st.floats(0.1, 1e5),
        group_seconds=st.none() | st.floats(0.1, 1e5),
        waited=st.just(0.0),
        left=st.none(),
    )
)
def test_where_nothing_is_ready_or_under_way_something_may_always_be_begun(
    now: Situation,
) -> None:
    assert permitted(now) >= 1


def test_the_pace_follows_what_was_done_lately() -> None:
    pace = Pace()
    assert (pace.unit_seconds, pace.interval_seconds, pace.idle_share) == (None, None, 0.0)
    for _ in range(100):
        pace.did(4, 2.0, 6.0)
    assert pace.unit_seconds == pytest.approx(0.5)
    assert pace.interval_seconds == pytest.approx(2.0)
    assert pace.idle_share == pytest.approx(0.75)
    for _ in range(16):
        pace.did(4, 4.0, 0.0)
    assert pace.unit_seconds == pytest.approx(0.94, abs=0.02)
    assert pace.idle_share < 0.2
    for _ in range(16):
        pace.did(1, -1e6, -1e6)
    assert pace.unit_seconds is not None
    assert 0.0 < pace.unit_seconds < 0.94
    assert 0.0 <= pace.idle_share < 0.2
