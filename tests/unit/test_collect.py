"""The collector: both stages, blame, mutes, several holders, and what it hands on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.collect import FULL_SECONDS, LOOK_SECONDS
from swarmnode.fetching import (
    FETCHES_AT_ONCE,
    HOLDERS_TRIED,
    PROMPT_SECONDS,
    SLOW_FETCHES,
    TRYING_SECONDS,
)
from swarmnode.prefixes import own_prefix
from swarmnode.selection.admission import Reason
from swarmnode.selection.standing import Standing
from swarmnode.types import Group, Scored
from swarmproto import (
    AnnouncedGroup,
    FetchRequest,
    FetchResponse,
    bundle_id,
)
from tests.unit.collecting_support import (
    FETCH_SECONDS,
    LIVE,
    RELAY,
    FirstIsRight,
    Serve,
    Stranger,
    honestly,
    scene,
    simulate,
)
from tests.unit.made import scored


def test_what_is_admitted_is_pooled_held_for_others_and_its_holder_praised() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        bundle = one.bundle(one.group(5), one.group(6))
        announcement = one.announcement(bundle)
        here.transport.serving[one.address] = honestly(bundle)
        await here.look(announcement)
        assert sorted(each.group.question.index for each in here.pool.fresh(clock.now())) == [5, 6]
        ((held, header, groups, expires),) = here.transport.held
        assert (held, header) == (announcement, bundle.header_bytes)
        assert groups == {0: bundle.group_bytes[0], 1: bundle.group_bytes[1]}
        assert expires == pytest.approx(clock.now() - FETCH_SECONDS + 300, abs=0.01)
        assert here.served == [one.address]
        assert here.collector.dropped == {}
        assert here.muted == []

    simulate(scenario)


def test_only_what_was_admitted_is_held_for_others() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, rewards=FirstIsRight(clock, [Reason.QUESTION_DIFFERS]))
        one = Stranger(1, clock)
        await here.hears_of(one, 5, 6)
        ((_, _, groups, _),) = here.transport.held
        assert list(groups) == [1]
        assert here.collector.dropped == {Reason.QUESTION_DIFFERS: 1}
        lines = here.collector.standing.why(one.name, clock.now())
        assert lines[1].startswith("question_differs, once: ")

    simulate(scenario)


def test_nothing_is_fetched_of_muted_authors_nor_from_muted_holders() -> None:
    async def scenario(clock: VirtualClock) -> None:
        standing, one, two = Standing(), Stranger(1, clock), Stranger(2, clock)
        here = scene(clock, standing=standing)
        standing.note(one.name, Reason.HASH, clock.now())
        await here.hears_of(one, 5)
        assert here.collector.dropped == {Reason.MUTED: 1}
        bundle = two.bundle(two.group(5))
        here.transport.serving[one.address] = honestly(bundle)
        await here.look(two.announcement(bundle, holders=[one.address]))
        assert here.collector.dropped == {Reason.MUTED: 2}
        assert here.transport.asked == []
        here.transport.serving[two.address] = honestly(bundle)
        await here.look(two.announcement(bundle, holders=[one.address, two.address], size=2000))
        assert [holder for holder, _ in here.transport.asked] == [two.address]
        assert len(here.pool) == 1

    simulate(scenario)


def test_what_a_muted_peer_delivers_is_taken_from_somebody_else() -> None:
    async def scenario(clock: VirtualClock) -> None:
        standing, one = Standing(), Stranger(1, clock)
        here = scene(clock, standing=standing)
        standing.note(RELAY, Reason.SIGNATURE, clock.now())
        bundle = one.bundle(one.group(5))
        here.transport.serving[one.address] = honestly(bundle)
        announcement = one.announcement(bundle)
        await here.look(announcement, peer=RELAY)
        assert here.collector.dropped == {Reason.MUTED: 1}
        await here.look(announcement, peer="12D3KooWOther")
        assert len(here.pool) == 1

    simulate(scenario)


def test_a_muted_peer_is_listened_to_again_when_the_mute_ends() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        bundle = one.bundle(one.group(5))
        here.transport.serving[one.address] = lambda _: FetchResponse("ok", b"junk", ())
        await here.look(one.announcement(bundle))
        assert here.muted == [(one.name, 3600.0)]
        await clock.sleep(3599 - FETCH_SECONDS)
        await here.hears_of(one, 6)
        assert len(here.pool) == 0
        await clock.sleep(2)
        await here.hears_of(one, 7)
        assert len(here.pool) == 1

    simulate(scenario)


def _junk(_request: FetchRequest) -> FetchResponse:
    return FetchResponse("ok", b"junk", ())


def _busy(_request: FetchRequest) -> FetchResponse:
    return FetchResponse("busy", None, ())


def _missing(_request: FetchRequest) -> FetchResponse:
    return FetchResponse("missing", None, ())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, Reason.UNREACHABLE),
        (_busy, Reason.BUSY),
        (_missing, Reason.MISSING),
        (_junk, Reason.HASH),
    ],
)
def test_when_a_holder_fails_the_next_one_is_asked(answer: Serve | None, reason: Reason) -> None:
    async def scenario(clock: VirtualClock) -> None:
        failed = 0
        for index in range(12):
            here, one, two = scene(clock), Stranger(1, clock), Stranger(2, clock)
            here.collector._rng.seed(index)
            bundle = one.bundle(one.group(index))
            here.transport.serving[one.address] = honestly(bundle)
            if answer:
                here.transport.serving[two.address] = answer
            await here.look(one.announcement(bundle, holders=[two.address, one.address]))
            assert len(here.pool) == 1
            assert here.collector.dropped in ({}, {reason: 1})
            failed += here.collector.dropped[reason]
            blamed = answer is _junk and here.collector.dropped[reason] > 0
            assert here.muted == ([(two.name, 3600.0)] if blamed else [])
        assert 0 < failed < 12

    simulate(scenario)


def test_groups_that_one_holder_leaves_out_are_asked_of_the_next() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one, two = scene(clock), Stranger(1, clock), Stranger(2, clock)
        bundle = one.bundle(one.group(5), one.group(6))

        def partly(at: int) -> Serve:
            groups = ((at, bundle.group_bytes[at]),)
            return lambda request: FetchResponse(
                "ok", bundle.header_bytes, groups if at in request.positions else ()
            )

        here.transport.serving[one.address] = partly(0)
        here.transport.serving[two.address] = partly(1)
        await here.look(one.announcement(bundle, holders=[one.address, two.address]))
        assert len(here.pool) == 2
        assert here.collector.dropped == {Reason.MISSING: 1}
        assert [len(request.positions) for _, request in here.transport.asked] == [2, 1]

    simulate(scenario)


def test_no_more_than_a_few_holders_of_a_bundle_are_tried() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        dead = [Stranger(number, clock).address for number in range(10, 18)]
        await here.look(one.announcement(one.bundle(one.group(5)), holders=dead))
        assert here.collector.dropped == {Reason.UNREACHABLE: HOLDERS_TRIED}

    simulate(scenario)


def test_a_holder_that_is_named_often_is_asked_once_and_slow_ones_are_not_waited_for() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        dead = [Stranger(number, clock).address for number in (10, 11)]
        await here.look(one.announcement(one.bundle(one.group(5)), holders=dead[:1] * 8))
        assert here.collector.dropped == {Reason.UNREACHABLE: 1}
        for address in dead:
            here.transport.seconds[address] = TRYING_SECONDS + 1
        start = clock.now()
        await here.look(one.announcement(one.bundle(one.group(5)), holders=dead))
        assert clock.now() - start == pytest.approx(LOOK_SECONDS)
        await clock.sleep(TRYING_SECONDS)
        assert here.collector.dropped == {Reason.UNREACHABLE: 2}
        assert here.transport.at_once == 0

    simulate(scenario)


def test_fetches_of_a_look_run_beside_each_other_but_few_at_once() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock)
        announcements = []
        for number in range(1, 9):
            one = Stranger(number, clock)
            bundle = one.bundle(one.group(5))
            here.transport.serving[one.address] = honestly(bundle)
            announcements.append(one.announcement(bundle))
        start = clock.now()
        await here.look(*announcements)
        assert len(here.pool) == 8
        assert here.transport.most_at_once == FETCHES_AT_ONCE
        assert clock.now() - start == pytest.approx(2 * FETCH_SECONDS)

    simulate(scenario)


def test_a_slow_holder_delays_nobody_elses_groups() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, slow, quick = scene(clock), Stranger(1, clock), Stranger(2, clock)
        bundles = [each.bundle(each.group(5)) for each in (slow, quick)]
        for each, bundle in zip((slow, quick), bundles, strict=True):
            here.transport.serving[each.address] = honestly(bundle)
        here.transport.seconds[slow.address] = 10.0
        start = clock.now()
        await here.look(slow.announcement(bundles[0]), quick.announcement(bundles[1]))
        assert clock.now() - start == pytest.approx(LOOK_SECONDS)
        await clock.sleep(10.0)
        received = {
            each.group.publisher: each.received - start for each in here.pool.fresh(clock.now())
        }
        assert received[quick.key] == pytest.approx(FETCH_SECONDS)
        assert received[slow.key] == pytest.approx(10.0)

    simulate(scenario)


def test_slow_holders_leave_the_places_of_fetches_to_others() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock)
        strangers = [Stranger(number, clock) for number in range(1, FETCHES_AT_ONCE + 3)]
        *slow, quick = strangers
        announcements = []
        for each in strangers:
            bundle = each.bundle(each.group(5))
            here.transport.serving[each.address] = honestly(bundle)
            here.transport.seconds[each.address] = FETCH_SECONDS if each is quick else 9.0
            announcements.append(each.announcement(bundle))
        start = clock.now()
        await here.look(*announcements)
        await clock.sleep(PROMPT_SECONDS)
        (first,) = here.pool.fresh(clock.now())
        assert first.group.publisher == quick.key
        assert first.received - start < PROMPT_SECONDS + 3 * FETCH_SECONDS
        again = slow[0].bundle(slow[0].group(6))
        asked = len(here.transport.asked)
        await here.look(slow[0].announcement(again))
        assert len(here.transport.asked) == asked, "it is waited for already"
        assert here.collector.dropped == {Reason.BUSY: 1}
        await clock.sleep(10.0)
        assert len(here.pool) == len(strangers)

    simulate(scenario)


def test_few_slow_holders_are_waited_for() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, groups_per_look=64)
        for first in (1, 9):
            announcements = []
            for number in range(first, first + 8):
                one = Stranger(number, clock)
                bundle = one.bundle(one.group(5))
                here.transport.serving[one.address] = honestly(bundle)
                here.transport.seconds[one.address] = 60.0
                announcements.append(one.announcement(bundle))
            await here.look(*announcements)
            await clock.sleep(2 * PROMPT_SECONDS)
        assert here.transport.at_once == SLOW_FETCHES
        assert here.collector.dropped == {Reason.BUSY: 8}

    simulate(scenario)


def test_the_same_seed_gives_the_same_order_of_everything() -> None:
    def once() -> list[tuple[str, FetchRequest]]:
        asked: list[tuple[str, FetchRequest]] = []

        async def scenario(clock: VirtualClock) -> None:
            here = scene(clock, groups_per_look=6)
            announcements = []
            for number in range(1, 9):
                one = Stranger(number, clock)
                bundle = one.bundle(one.group(5), one.group(6))
                here.transport.serving[one.address] = honestly(bundle)
                holders = [one.address, Stranger(40 + number, clock).address]
                announcements.append(one.announcement(bundle, holders=holders))
            await here.look(*announcements)
            asked.extend(here.transport.asked)

        simulate(scenario)
        return asked

    assert once() == once()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"expires": 1_800_000_000_001, "created": 1_800_000_000_000}, Reason.EXPIRED),
        ({"created": 1_800_000_200_000, "expires": 1_800_000_300_000}, Reason.FROM_THE_FUTURE),
        ({"swarm_id": b"t" * 32}, Reason.FOREIGN_SWARM),
        ({"size": 2 * 1024 * 1024}, Reason.TOO_LARGE),
        ({"claimed": [replace(LIVE, task="bf")]}, Reason.NOTHING_WANTED),
        ({"claimed": [replace(LIVE, claimed_successes=0)]}, Reason.NOTHING_WANTED),
        ({"claimed": [replace(LIVE, completions=9)]}, Reason.SWARM_RULES),
        ({"claimed": [LIVE] * 5}, Reason.SWARM_RULES),
    ],
)
def test_an_announcement_is_judged_before_anything_is_fetched(
    changes: dict[str, Any], reason: Reason
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, completions_max=8, groups_per_bundle_max=4)
        one = Stranger(1, clock)
        await clock.sleep(10)
        await here.look(one.announcement(one.bundle(one.group(5)), **changes))
        assert here.collector.dropped == {reason: 1}
        assert here.transport.asked == []
        assert here.muted == []

    simulate(scenario)


def test_bundles_whose_announced_bytes_exceed_the_budget_are_not_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swarmnode.collect.BYTES_PER_LOOK", 100_000)

    async def scenario(clock: VirtualClock) -> None:
        here, one, two = scene(clock), Stranger(1, clock), Stranger(2, clock)
        bundles = [each.bundle(each.group(5)) for each in (one, two)]
        here.transport.serving[two.address] = honestly(bundles[1])
        await here.look(one.announcement(bundles[0], size=200_000), two.announcement(bundles[1]))
        assert here.collector.dropped == {Reason.OVER_BUDGET: 1}
        assert [holder for holder, _ in here.transport.asked] == [two.address]

    simulate(scenario)


@pytest.mark.parametrize(
    ("rules", "tokens", "reason"),
    [
        ({"completion_tokens_max": 3}, 4, Reason.SWARM_RULES),
        ({"completions_min": 3}, 2, Reason.SWARM_RULES),
        ({"completion_tokens": 3}, 4, Reason.TOO_LONG),
        (
            {"fingerprints": {("basic_arithmetic", "easy"): b"x" * 32}},
            2,
            Reason.UNKNOWN_FINGERPRINT,
        ),
    ],
)
def test_a_group_that_the_rules_leave_out_is_ignored_and_nobody_punished(
    rules: dict[str, Any], tokens: int, reason: Reason
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock, **rules), Stranger(1, clock)
        bundle = one.bundle(one.group(5, tokens=tokens))
        here.transport.serving[one.address] = honestly(bundle)
        # Three completions are claimed, so that the claim passes where the group itself doesn't.
        await here.look(one.announcement(bundle, [replace(LIVE, completions=3)]))
        assert here.collector.dropped == {reason: 1}
        assert len(here.pool) == 0
        assert here.muted == []

    simulate(scenario)


def test_a_group_with_more_completions_than_ours_is_cut_to_ours_and_stays_live() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock, completions_kept=8), Stranger(1, clock)
        bundle = one.bundle(one.group(5, completions=64))
        here.transport.serving[one.address] = honestly(bundle)
        await here.look(one.announcement(bundle, [AnnouncedGroup(*_TASK, 1, 64)]))
        (pooled,) = here.pool.fresh(clock.now())
        assert len(pooled.scores) == len(pooled.group.completions) == 8
        assert pooled.live
        ((_, _, groups, _),) = here.transport.held
        assert groups == {0: bundle.group_bytes[0]}

    simulate(scenario)


_TASK = ("basic_arithmetic", "easy")


def test_another_instance_of_our_key_is_told_once_or_when_an_earlier_moment_is_known() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, twin = scene(clock), Stranger(0, clock)
        bundle = twin.bundle(twin.group(5))
        start = clock.now()
        late = int(start * 1000) + 400_000
        await here.look(
            twin.announcement(bundle, instance=b"i" * 16),
            twin.announcement(bundle, instance=b"j" * 16),
            twin.announcement(bundle, instance=b"j" * 16, size=1000),
            twin.announcement(bundle, instance=b"k" * 16, created=late, expires=late + 300_000),
        )
        await here.look(twin.announcement(bundle, instance=b"j" * 16, size=1001))
        assert here.duplicates == [(b"j" * 16, start), (b"k" * 16, start + 400)]
        begun = int(start * 1000) - 5_000
        await here.look(twin.announcement(bundle, instance=b"j" * 16, size=1002, started=begun))
        assert here.duplicates.pop() == (b"j" * 16, start - 5)
        earlier = late - 1000
        await here.look(
            twin.announcement(bundle, instance=b"k" * 16, created=earlier, expires=late)
        )
        assert here.duplicates[2:] == [(b"k" * 16, start + 399)]
        await clock.sleep(400)
        old = int(start * 1000)
        await here.look(
            twin.announcement(bundle, instance=b"l" * 16, created=old, expires=old + 300_000)
        )
        assert len(here.duplicates) == 3
        assert here.transport.asked == []
        assert here.collector.dropped == {}

    simulate(scenario)


def test_we_fetch_from_ourselves_only_when_nobody_else_has_it() -> None:
    async def scenario(clock: VirtualClock) -> None:
        us = Stranger(0, clock)
        for seed in range(8):
            here, one = scene(clock), Stranger(1, clock)
            here.collector._rng.seed(seed)
            bundle = one.bundle(one.group(5))
            here.transport.serving[one.address] = honestly(bundle)
            await here.look(one.announcement(bundle, holders=[us.address, one.address]))
            assert [holder for holder, _ in here.transport.asked] == [one.address]

    simulate(scenario)


def test_every_failure_is_counted_for_the_peer_that_failed() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        gone = Stranger(9, clock)
        for index in range(3):
            bundle = one.bundle(one.group(index))
            await here.look(one.announcement(bundle, holders=[gone.address]))
        lines = here.collector.standing.why(gone.name, clock.now())
        assert lines[0].startswith("unreachable, 3 times: ")
        assert here.collector.standing.peers(clock.now()) == (gone.name,)

    simulate(scenario)


def test_a_bundle_is_asked_for_by_its_id_and_the_positions_worth_having() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        bundle = one.bundle(*(one.group(index) for index in range(3)))
        here.transport.serving[one.address] = honestly(bundle)
        dead = replace(LIVE, claimed_successes=2)
        await here.look(one.announcement(bundle, [LIVE, dead, LIVE]))
        ((_, request),) = here.transport.asked
        assert request.bundle_id == bundle_id(bundle.header_bytes)
        assert request.positions == (0, 2)
        assert here.collector.counts == Counter(
            fetched=2, fetched_bytes=sum(len(bundle.group_bytes[at]) for at in (0, 2)), admitted=2
        )

    simulate(scenario)


def test_what_the_rewards_raise_comes_out_of_a_look_as_it_is() -> None:
    class Lost:
        async def score_external(
            self, groups: Sequence[Group], prefix: str
        ) -> tuple[Sequence[Scored], Sequence[Reason]]:
            raise OSError("the scorer is lost")

    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, rewards=Lost())
        with pytest.raises(OSError, match="lost"):
            await here.hears_of(Stranger(1, clock), 5)

    simulate(scenario)


def test_looking_goes_on_until_it_is_cancelled() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        running = asyncio.ensure_future(here.collector.run())
        await clock.sleep(5)
        bundle = one.bundle(one.group(5))
        here.transport.serving[one.address] = honestly(bundle)
        here.transport.deliver(one.announcement(bundle))
        await clock.sleep(2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(here.pool) == 1

    simulate(scenario)


def test_nothing_is_looked_for_while_the_pool_is_full() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        for index in range(100):
            here.pool.add(scored(index=index, received=clock.now()))
        await here.hears_of(one, 5)
        assert here.transport.asked == []
        here.pool.take(here.pool.fresh(clock.now())[:1])
        await here.hears_of(one, 6)
        assert len(here.transport.asked) == 1

    simulate(scenario)


def test_whoever_filled_the_pool_first_keeps_nobody_else_out() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one, two = scene(clock), Stranger(1, clock), Stranger(2, clock)
        for index in range(100):
            filled = scored(index=index, publisher=one.key, received=clock.now())
            here.pool.add(replace(filled, prefix="203.0.113.0/24"))
        here.transport.prefixes[one.name] = "203.0.113.0/24"
        announced = []
        for each in (one, two):
            bundle = each.bundle(each.group(200))
            here.transport.serving[each.address] = honestly(bundle)
            announced.append(each.announcement(bundle))
        await clock.sleep(FULL_SECONDS)
        await here.look(*announced)
        assert [holder for holder, _ in here.transport.asked] == [two.address]
        assert len(here.pool) == 100
        prefixes = Counter(each.prefix for each in here.pool.fresh(clock.now()))
        assert prefixes == {"203.0.113.0/24": 99, own_prefix(two.name): 1}
        # What had no place then is taken as soon as there is one that nobody else will need.
        here.pool.take(here.pool.fresh(clock.now())[-1:])
        await here.look(*announced)
        assert [holder for holder, _ in here.transport.asked] == [two.address, one.address]

    simulate(scenario)


def test_what_a_peers_groups_were_worth_is_counted_for_its_quality() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, rewards=FirstIsRight(clock, [Reason.QUESTION_DIFFERS]))
        one = Stranger(1, clock)
        await here.hears_of(one, 5, 6, 7, 8)
        found = here.collector.quality.of(one.name, clock.now())
        assert found is not None
        assert (round(found.groups, 3), found.held, found.live) == (4, 0.75, 0.75)
        assert found.admitted == 0.75
        assert here.muted == []

    simulate(scenario)
