"""How many questions a generator may begin now, so that none of its groups is stale in its turn.

Pure arithmetic. Two bounds hold together. By place: the groups before its last one are trained on
first, a round's worth at a time, and each round moves the policy on; alone this is exact, since
whatever is under way counts. By time: a generator that is slower than the others is overtaken
while it samples, by as many rounds as the trainer ends meanwhile. It then gets fewer questions at a
time, or none until rounds take longer. Where nothing is ready or under way one question may always
be begun, whatever the paces say: they are those of the past, and a machine that slept has had a
batch that took a night.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MARGIN = 1.25
"""Batches take longer than the last ones did, now and then."""
TRIAL_FACTOR = 50.0
"""A generator that would be too slow has one question after waiting so many times as long as that
takes: its pace is known from its last batch alone, and the machine may have become idle. What is
lost if it hasn't is below 2 % of what it would have done."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What a decision follows from."""

    questions: int
    """Groups that a round trains on, as far as possible."""
    versions_per_round: int
    """Optimizer steps of a round at most."""
    max_lag: int
    """Versions that a group may be behind when its turn comes."""
    max_age: float
    """Seconds that it may be old then, since its sampling began."""
    capacity: int
    """Groups that may wait or be under way, together."""
    waiting: int
    """Groups that are finished."""
    in_hand: int
    """Groups that the trainer's next round has already."""
    under_way: int
    """Groups that are being sampled by others."""
    training: bool
    """Whether a round is being trained on, whose version isn't out yet."""
    lag: int
    """Versions that the weights, which it would sample with, are behind the trainer's."""
    others: bool
    """Whether other generators sample meanwhile."""
    round_seconds: float | None
    """From the end of a round to that of the next; None while unknown."""
    group_seconds: float | None
    """What this generator needs for a group; None while unknown."""
    waited: float
    """Seconds for which it has been waiting to begin."""
    left: int | None
    """Groups that are still wanted until the run ends; None for a run without end."""


def permitted(now: Situation) -> int:
    """Questions that may be begun, from 0 to those of a round."""
    for count in range(now.questions, 0, -1):
        if _has_room(now, count) and _fresh(now, count):
            return count
    return int(_worth_a_trial(now) or _idle(now))


def _has_room(now: Situation, count: int) -> bool:
    together = now.waiting + now.under_way + count
    return together <= now.capacity and (now.left is None or now.in_hand + together <= now.left)


def _fresh(now: Situation, count: int) -> bool:
    return _fresh_by_place(now, count) and _fresh_by_time(now, count)


def _fresh_by_place(now: Situation, count: int) -> bool:
    rounds = _rounds_before(now, count)
    seconds = (now.group_seconds or 0.0) * count + (now.round_seconds or 0.0) * rounds
    return now.lag + rounds * now.versions_per_round <= now.max_lag and seconds <= now.max_age


def _rounds_before(now: Situation, count: int) -> int:
    """Rounds that end between now and the one that has the last of so many groups."""
    # A round that has all it needs and waits for live groups takes one more at least.
    first = min(now.in_hand, now.questions - 1)
    place = first + now.waiting + now.under_way + count
    return int(now.training) + math.ceil(place / now.questions) - 1


def _fresh_by_time(now: Situation, count: int) -> bool:
    if not now.others or not now.group_seconds or not now.round_seconds:
        return True
    rounds = math.ceil(MARGIN * count * now.group_seconds / now.round_seconds)
    return now.lag + rounds * now.versions_per_round <= now.max_lag


def _idle(now: Situation) -> bool:
    """Whether nobody does anything that would make a group of this generator stale."""
    busy = now.waiting or now.under_way or now.training
    return not busy and now.lag <= now.max_lag and _has_room(now, 1)


def _worth_a_trial(now: Situation) -> bool:
    if now.group_seconds is None or now.waited < TRIAL_FACTOR * now.group_seconds:
        return False
    return _has_room(now, 1) and _fresh_by_place(now, 1)
