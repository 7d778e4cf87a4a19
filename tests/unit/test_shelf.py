"""The shelf: what is held for how long, under which quota, and what a fetch gets."""

from __future__ import annotations

import time
from dataclasses import dataclass

from swarmnode.network.shelf import Shelf
from swarmproto import Bundle, FetchRequest, FetchResponse, bundle_id, bundle_size
from tests.unit.network_made import NOW, SWARM, bundle, private_key
from tests.unit.network_time import FixedClock


@dataclass
class Shop:
    """A shelf and its clock."""

    clock: FixedClock
    shelf: Shelf

    def ask(self, wanted: Bundle, *positions: int, swarm: bytes = SWARM) -> FetchResponse:
        request = FetchRequest(swarm, bundle_id(wanted.header_bytes), positions)
        return self.shelf.answer(request)


def shop(
    quota: int = 10_000, *, offered: int = 10_000, giver: int = 10_000, relayed: int = 10_000
) -> Shop:
    clock = FixedClock()
    shelf = Shelf(
        clock,
        quota_bytes=quota,
        offered_quota_bytes=offered,
        offered_quota_bytes_per_giver=giver,
        relayed_quota_bytes=relayed,
    )
    return Shop(clock, shelf)


def numbered(number: int) -> Bundle:
    return bundle(private_key(7), sequence=number, text=f"{number:03}")


def test_groups_that_are_asked_for_are_served_with_their_header() -> None:
    mine, here = numbered(1), shop()
    here.shelf.put(mine, NOW + 60)
    answer = here.ask(mine, 1)
    assert (answer.status, answer.header_bytes) == ("ok", mine.header_bytes)
    assert answer.groups == ((1, mine.group_bytes[1]),)


def test_what_is_unknown_expired_or_of_another_swarm_is_missing() -> None:
    mine, here = numbered(1), shop()
    assert here.ask(mine).status == "missing"
    here.shelf.put(mine, NOW + 60)
    assert here.ask(mine, swarm=bytes(32)).status == "missing"
    here.clock.seconds = NOW + 60
    assert here.ask(mine).status == "missing"


def test_own_bundles_make_room_for_newer_ones() -> None:
    size = bundle_size(numbered(1))
    here = shop(2 * size)
    for number in (1, 2, 3):
        here.shelf.put(numbered(number), NOW + 60)
    assert [here.ask(numbered(each)).status for each in (1, 2, 3)] == ["missing", "ok", "ok"]
    assert here.shelf.bytes_held("own") == 2 * size


def test_an_offer_is_turned_away_rather_than_that_a_promise_is_broken() -> None:
    size = bundle_size(numbered(1))
    here = shop(offered=2 * size)
    assert here.shelf.offer(numbered(1), NOW + 60, "a")
    assert here.shelf.offer(numbered(2), NOW + 60, "b")
    assert not here.shelf.offer(numbered(3), NOW + 60, "c")
    assert here.ask(numbered(1)).status == "ok"
    here.clock.seconds = NOW + 61
    assert here.shelf.offer(numbered(3), NOW + 120, "c")
    assert here.shelf.bytes_held("offered") == size


def test_one_giver_fills_its_own_quota_alone() -> None:
    size = bundle_size(numbered(1))
    here = shop(giver=size)
    assert here.shelf.offer(numbered(1), NOW + 60, "greedy")
    assert not here.shelf.offer(numbered(2), NOW + 60, "greedy")
    assert here.shelf.offer(numbered(3), NOW + 60, "modest")
    assert here.shelf.offer(numbered(1), NOW + 60, "modest"), "what is held is held"
    assert here.shelf.bytes_held("offered") == 2 * size


def test_the_quota_of_one_origin_leaves_the_others_alone() -> None:
    size = bundle_size(numbered(1))
    here = shop(size, offered=size, relayed=size)
    here.shelf.put(numbered(1), NOW + 60)
    here.shelf.offer(numbered(2), NOW + 60, "a")
    for number in range(3, 20):
        other = numbered(number)
        groups = dict(enumerate(other.group_bytes))
        here.shelf.relay(other.header, other.header_bytes, groups, NOW + 60)
    assert here.ask(numbered(1)).status == here.ask(numbered(2)).status == "ok"
    assert here.ask(numbered(19), 0).groups
    assert here.shelf.bytes_held("relayed") == size


def test_parts_of_a_bundle_add_up() -> None:
    other, here = numbered(1), shop()
    header, encoded = other.header, other.header_bytes
    here.shelf.relay(header, encoded, {1: other.group_bytes[1]}, NOW + 60)
    assert here.ask(other, 0, 1).groups == ((1, other.group_bytes[1]),)
    here.shelf.relay(header, encoded, {0: other.group_bytes[0]}, NOW + 90)
    assert here.ask(other, 0, 1).groups == tuple(enumerate(other.group_bytes))
    assert here.shelf.bytes_held("relayed") == bundle_size(other)
    here.clock.seconds = NOW + 89
    assert here.ask(other).status == "ok"


def test_an_offered_bundle_replaces_the_part_that_was_relayed() -> None:
    other, here = numbered(1), shop()
    here.shelf.relay(other.header, other.header_bytes, {1: other.group_bytes[1]}, NOW + 60)
    assert here.shelf.offer(other, NOW + 60, "a")
    assert here.shelf.bytes_held("relayed") == 0
    assert len(here.ask(other, 0, 1).groups) == 2


def _seconds_of(here: Shop, numbers: range) -> float:
    mine = numbered(1)
    began = time.perf_counter()
    for number in numbers:
        here.shelf.relay(mine.header, number.to_bytes(8), {}, NOW + 60 + number)
    return time.perf_counter() - began


def test_a_bundle_costs_the_same_however_many_are_held() -> None:
    few, many = shop(relayed=1_000_000), shop(relayed=1_000_000)
    _seconds_of(many, range(20_000))
    best = min(_seconds_of(many, range(20_000 + at, 20_200 + at)) for at in range(0, 1000, 200))
    assert best < 20 * min(_seconds_of(few, range(at, at + 200)) for at in range(0, 1000, 200))


def test_expiries_of_what_was_pushed_out_are_not_kept() -> None:
    here = shop(relayed=80)
    _seconds_of(here, range(20_000))
    assert here.shelf.bytes_held("relayed") == 80
    assert len(here.shelf._expiries) < 2_000
