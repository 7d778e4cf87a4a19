"""The standing of peers: who is muted, for how long, and what is remembered of them."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from swarmnode.selection.admission import Reason, Verdict
from swarmnode.selection.standing import Standing

HOUR = 3600.0
DAY = 24 * HOUR
NOW = 1_800_000_000.0


def rejected(times: Sequence[float], peer: str = "peer") -> tuple[Standing, list[float]]:
    standing = Standing()
    return standing, [standing.note(peer, Reason.HASH, now) for now in times]


def test_a_rejection_mutes_for_an_hour_and_not_a_second_longer() -> None:
    standing, seconds = rejected([NOW])
    assert seconds == [HOUR]
    assert standing.muted_seconds("peer", NOW + HOUR - 1) == 1.0
    assert standing.muted_seconds("peer", NOW + HOUR) == 0.0
    assert standing.muted_seconds("somebody else", NOW) == 0.0


def test_repetition_doubles_the_mute_up_to_a_day() -> None:
    times = [NOW]
    for hours in (1, 2, 4, 8, 16, 24):
        times.append(times[-1] + hours * HOUR)
    _, seconds = rejected(times)
    assert [each / HOUR for each in seconds] == [1, 2, 4, 8, 16, 24, 24]


def test_a_clean_day_after_the_mute_wipes_the_slate() -> None:
    _, almost = rejected([NOW, NOW + HOUR + DAY - 1])
    assert almost == [HOUR, 2 * HOUR]
    standing, clean = rejected([NOW, NOW + HOUR + DAY])
    assert clean == [HOUR, HOUR]
    assert standing.why("peer", NOW + 3 * DAY) == ("Nothing is held against it.",)
    assert standing.peers(NOW + 3 * DAY) == ()


def test_what_comes_during_a_mute_is_counted_and_lengthens_nothing() -> None:
    standing, seconds = rejected([NOW, NOW + 1, NOW + 2, NOW + HOUR])
    assert seconds == [HOUR, 0.0, 0.0, 2 * HOUR]
    assert any(line.startswith("hash, 4 times: ") for line in standing.why("peer", NOW + HOUR))


@pytest.mark.parametrize(
    "reason",
    [
        reason
        for reason in Reason
        if reason.verdict is Verdict.IGNORE and reason is not Reason.SCORER_KILLED
    ],
)
def test_no_number_of_ignored_things_ever_mutes(reason: Reason) -> None:
    standing = Standing()
    assert {standing.note("peer", reason, NOW) for _ in range(1000)} == {0.0}
    assert standing.muted_seconds("peer", NOW) == 0.0


@pytest.mark.parametrize(
    "reason", [reason for reason in Reason if reason.verdict is Verdict.REJECT]
)
def test_every_rejected_thing_mutes(reason: Reason) -> None:
    assert Standing().note("peer", reason, NOW) == HOUR


def test_the_third_group_in_an_hour_that_kills_the_scorer_mutes_its_author() -> None:
    standing, kill = Standing(), Reason.SCORER_KILLED
    assert [standing.note("peer", kill, NOW + each) for each in (0, 1, HOUR - 1)] == [0, 0, HOUR]
    assert standing.muted_seconds("peer", NOW + HOUR) > 0
    # They count once: after the mute it takes three again, and the mute is longer.
    later = NOW + 3 * HOUR
    assert [standing.note("peer", kill, later + each) for each in range(3)] == [0, 0, 2 * HOUR]


def test_a_rare_kill_of_the_scorer_is_nobodys_offence() -> None:
    standing = Standing()
    muted = [
        standing.note("peer", Reason.SCORER_KILLED, NOW + each * HOUR / 2) for each in range(99)
    ]
    assert set(muted) == {0.0}
    both = [standing.note(name, Reason.SCORER_KILLED, NOW) for name in ("one", "two") * 2]
    assert set(both) == {0.0}, "each for its own"
    assert standing.note("peer", Reason.SCORER_KILLED, NOW - DAY) == 0.0, (
        "a clock that was set back"
    )


def test_ignored_things_do_not_keep_an_offence_alive() -> None:
    standing, _ = rejected([NOW])
    for hour in range(1, 30):
        standing.note("peer", Reason.UNREACHABLE, NOW + hour * HOUR)
    assert standing.note("peer", Reason.HASH, NOW + 30 * HOUR) == HOUR


def test_ten_thousand_names_are_bounded_and_forget_the_longest_clean_first() -> None:
    standing = Standing(capacity=100)
    standing.note("harmless", Reason.UNREACHABLE, NOW)
    standing.note("early", Reason.HASH, NOW)
    standing.note("late", Reason.HASH, NOW + 1)
    for number in range(10_000):
        standing.note(f"stranger {number}", Reason.EXPIRED, NOW + 2)
    assert len(standing) == 100
    assert standing.muted_seconds("early", NOW + 2) > 0
    for number in range(98):
        standing.note(f"offender {number}", Reason.HASH, NOW + 3)
    assert standing.muted_seconds("early", NOW + 3) > 0
    standing.note("one more", Reason.HASH, NOW + 4)
    assert standing.muted_seconds("early", NOW + 4) == 0.0
    assert standing.muted_seconds("late", NOW + 4) > 0
    for number in range(10_000):
        standing.note(f"flood {number}", Reason.HASH, NOW + 5)
    assert len(standing) == 100


def test_an_operator_is_told_why_and_for_how_long() -> None:
    standing, _ = rejected([NOW, NOW + HOUR])
    standing.note("peer", Reason.UNREACHABLE, NOW + HOUR)
    lines = standing.why("peer", NOW + HOUR)
    assert lines[0] == "Muted until 2027-01-15 11:00:00 UTC, for 120 more minutes."
    assert lines[1] == "Muted 2 times, the next time for longer; forgotten after a clean day."
    assert lines[2].startswith("hash, 2 times: ")
    assert lines[3].startswith("unreachable, once: The holder did not answer")
    assert standing.why("nobody", NOW) == ("Nothing is held against it.",)


def test_standing_survives_a_restart_as_plain_values() -> None:
    standing, _ = rejected([NOW])
    standing.note("other", Reason.MISSING, NOW)
    again = Standing.from_values(json.loads(json.dumps(standing.to_values())))
    assert again.to_values() == standing.to_values()
    assert again.note("peer", Reason.HASH, NOW + HOUR) == 2 * HOUR
    assert again.peers(NOW) == ("peer", "other")


@pytest.mark.parametrize("value", [[], ["peer"], ["peer", "1", 0, {}], [1, 1, 0.0, {}], "peer"])
def test_damaged_values_are_refused(value: Sequence[object]) -> None:
    with pytest.raises(ValueError, match="standing"):
        Standing.from_values([value])


def test_a_clock_that_was_set_back_mutes_nobody_for_longer_than_a_day() -> None:
    standing, _ = rejected([NOW])
    assert standing.muted_seconds("peer", NOW - 365 * DAY) == 0.0


def test_what_was_admitted_of_a_peer_is_told_apart_from_what_was_dropped() -> None:
    standing = Standing()
    standing.admit("good", 0.0)
    standing.admit("good", 1.0)
    assert standing.admitted("good", 2.0) == 2
    assert standing.dropped("good", 2.0) == {}
    assert standing.why("good", 2.0) == ("Groups admitted: 2.", "Nothing is held against it.")
    standing.note("good", Reason.EXPIRED, 3.0)
    assert standing.dropped("good", 4.0) == {"expired": 1}
    again = Standing.from_values(standing.to_values())
    assert (again.admitted("good", 5.0), again.dropped("good", 5.0)) == (2, {"expired": 1})
    assert standing.admitted("nobody", 5.0) == 0
