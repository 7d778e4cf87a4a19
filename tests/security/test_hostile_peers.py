"""Peers that lie, flood and send nonsense: nothing raises, nothing grows, nobody is crowded out,
and blame falls on whoever did it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import get_args

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.fetching import FETCHES_AT_ONCE
from swarmnode.rewards.client import Rejection
from swarmnode.selection.admission import Concerned, Reason, Verdict
from swarmnode.selection.remembered import Remembered
from swarmnode.selection.standing import Standing
from swarmnode.types import Group, Scored
from swarmproto import (
    Bundle,
    FetchRequest,
    FetchResponse,
    bundle_id,
    decode_group,
    encode_group,
)
from swarmproto.envelope import _ANNOUNCEMENT, _HEADER, _seal
from tests.unit.collecting_support import (
    FINGERPRINTS,
    LIVE,
    OWN_KEY,
    RELAY,
    SWARM,
    FirstIsRight,
    Scene,
    Serve,
    Stranger,
    honestly,
    scene,
    simulate,
)

AUTHOR, HOLDER, VICTIM = 1, 2, 3

Answer = Callable[[FetchResponse], FetchResponse]


def test_every_reason_of_the_scorer_is_one_that_is_counted() -> None:
    assert {Reason(rejection).value for rejection in get_args(Rejection)} == set(
        get_args(Rejection)
    )


def truncated(data: bytes) -> bytes:
    return data[:132]


def longer(data: bytes) -> bytes:
    return data + bytes(1024)


def another_kind(data: bytes) -> bytes:
    return b"SWNB" + data[4:]


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def signed_by_another(data: bytes) -> bytes:
    return data[:37] + Stranger(VICTIM, VirtualClock.__new__(VirtualClock)).key + data[69:]


def of_an_invalid_key(data: bytes) -> bytes:
    return data[:37] + bytes(32) + data[69:]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (truncated, Reason.WIRE),
        (longer, Reason.WIRE),
        (another_kind, Reason.WIRE),
        (flipped, Reason.SIGNATURE),
        (signed_by_another, Reason.SIGNATURE),
        (of_an_invalid_key, Reason.SIGNATURE),
    ],
)
def test_who_delivers_a_forged_announcement_is_muted_and_nobody_else(
    changed: Callable[[bytes], bytes], reason: Reason
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        announcement = author.announcement(author.bundle(author.group(5)))
        await here.look(changed(announcement))
        assert here.collector.dropped == {reason: 1}
        assert here.muted == [(RELAY, 3600.0)]
        await here.hears_of(author, 6)
        assert len(here.pool) == 1

    simulate(scenario)


def test_a_forged_announcement_that_nobody_is_known_to_have_delivered_mutes_nobody() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        await here.look(flipped(author.announcement(author.bundle(author.group(5)))), peer="")
        assert here.collector.dropped == {Reason.SIGNATURE: 1}
        assert here.muted == []
        assert len(here.collector.standing) == 0

    simulate(scenario)


def test_who_signs_an_announcement_outside_the_specification_is_muted_not_who_passes_it_on() -> (
    None
):
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        await here.look(_seal(_ANNOUNCEMENT, author.private_key, SWARM, {"instance": 7}))
        assert here.collector.dropped == {Reason.SCHEMA: 1}
        assert here.muted == [(author.name, 3600.0)]

    simulate(scenario)


def test_our_own_key_is_never_held_against_us() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, twin = scene(clock), Stranger(0, clock)
        assert twin.key == OWN_KEY
        await here.look(_seal(_ANNOUNCEMENT, twin.private_key, SWARM, {"instance": 7}))
        assert here.collector.dropped == {Reason.SCHEMA: 1}
        assert here.muted == []

    simulate(scenario)


def another_bundle(response: FetchResponse) -> FetchResponse:
    other = Stranger(VICTIM, VirtualClock.__new__(VirtualClock))
    group = other.group(5)
    return FetchResponse("ok", other.bundle(group, group, created=0.0).header_bytes, ((0, group),))


def truncated_header(response: FetchResponse) -> FetchResponse:
    assert response.header_bytes
    return replace(response, header_bytes=response.header_bytes[:-1])


def swapped_groups(response: FetchResponse) -> FetchResponse:
    (_, first), (_, second) = response.groups
    return replace(response, groups=((0, second), (1, first)))


def truncated_group(response: FetchResponse) -> FetchResponse:
    (_, first), second = response.groups
    return replace(response, groups=((0, first[:-1]), second))


def altered_group(response: FetchResponse) -> FetchResponse:
    (_, first), second = response.groups
    record = decode_group(first)
    return replace(response, groups=((0, encode_group(replace(record, answer="9"))), second))


def oversized_group(response: FetchResponse) -> FetchResponse:
    return replace(response, groups=(response.groups[0], (1, bytes(256 * 1024 + 1))))


def more_groups(response: FetchResponse) -> FetchResponse:
    return replace(response, groups=(*response.groups, (2, response.groups[0][1])))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (another_bundle, Reason.HASH),
        (truncated_header, Reason.HASH),
        (swapped_groups, Reason.HASH),
        (truncated_group, Reason.HASH),
        (altered_group, Reason.HASH),
        (oversized_group, Reason.HASH),
        (more_groups, Reason.UNASKED),
    ],
)
def test_a_holder_that_serves_something_else_is_muted_and_the_author_is_not(
    answer: Answer, reason: Reason
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author, holder = scene(clock), Stranger(AUTHOR, clock), Stranger(HOLDER, clock)
        bundle = author.bundle(author.group(5), author.group(6))
        honest = honestly(bundle)
        here.transport.serving[holder.address] = lambda request: answer(honest(request))
        await here.look(author.announcement(bundle, holders=[holder.address]))
        assert here.collector.dropped == {reason: 1}
        assert here.muted == [(holder.name, 3600.0)]
        assert len(here.pool) == 0
        assert here.transport.held == []
        # The same bundle is still good from somebody honest: nothing was marked as spent.
        here.transport.serving[author.address] = honest
        await here.look(author.announcement(bundle))
        assert len(here.pool) == 2

    simulate(scenario)


def serving(here: Scene, at: Stranger, header: bytes, *groups: bytes) -> None:
    """Let a holder serve these bytes, whatever they are."""

    def answer(request: FetchRequest) -> FetchResponse:
        chosen = tuple((position, groups[position]) for position in request.positions)
        return FetchResponse("ok", header, chosen)

    here.transport.serving[at.address] = answer


def unverified_header(author: Stranger, bundle: Bundle) -> bytes:
    return flipped(bundle.header_bytes)


def header_of_another_kind(author: Stranger, bundle: Bundle) -> bytes:
    return b"SWNA" + bundle.header_bytes[4:]


def header_of_another_version(author: Stranger, bundle: Bundle) -> bytes:
    return b"SWNB\x02" + bundle.header_bytes[5:]


def header_outside_the_specification(author: Stranger, bundle: Bundle) -> bytes:
    return _seal(_HEADER, author.private_key, SWARM, {"sequence": "one"})


@pytest.mark.parametrize(
    ("made", "reason", "culprit"),
    [
        (unverified_header, Reason.SIGNATURE, HOLDER),
        (header_of_another_kind, Reason.WIRE, HOLDER),
        (header_of_another_version, Reason.UNKNOWN_VERSION, None),
        (header_outside_the_specification, Reason.SCHEMA, AUTHOR),
    ],
)
def test_a_faulty_header_under_the_announced_id_is_judged_like_any_envelope(
    made: Callable[[Stranger, Bundle], bytes], reason: Reason, culprit: int | None
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author, holder = scene(clock), Stranger(AUTHOR, clock), Stranger(HOLDER, clock)
        bundle = author.bundle(author.group(5))
        header = made(author, bundle)
        serving(here, holder, header, *bundle.group_bytes)
        named = bundle_id(header)
        await here.look(
            author.announcement(bundle, bundle_id=named, size=9999, holders=[holder.address])
        )
        assert here.collector.dropped == {reason: 1}
        expected = [] if culprit is None else [(Stranger(culprit, clock).name, 3600.0)]
        assert here.muted == expected

    simulate(scenario)


def fewer_groups(author: Stranger) -> tuple[Bundle, bytes]:
    bundle = author.bundle(author.group(5))
    return bundle, author.announcement(bundle, [LIVE, LIVE])


def unannounced_groups(author: Stranger) -> tuple[Bundle, bytes]:
    bundle = author.bundle(author.group(5), author.group(6))
    return bundle, author.announcement(bundle, [LIVE])


def another_task(author: Stranger) -> tuple[Bundle, bytes]:
    bundle = author.bundle(author.group(5))
    return bundle, author.announcement(bundle, [replace(LIVE, task="bf")])


def larger(author: Stranger) -> tuple[Bundle, bytes]:
    bundle = author.bundle(author.group(5))
    return bundle, author.announcement(bundle, size=100)


def anothers_bundle(author: Stranger) -> tuple[Bundle, bytes]:
    other = Stranger(VICTIM, author.clock)
    bundle = other.bundle(other.group(5))
    return bundle, author.announcement(bundle)


def nonsense_for_a_group(author: Stranger) -> tuple[Bundle, bytes]:
    bundle = author.bundle(b"\xc1")
    return bundle, author.announcement(bundle)


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (fewer_groups, Reason.BUNDLE_DIFFERS),
        (unannounced_groups, Reason.BUNDLE_DIFFERS),
        (another_task, Reason.BUNDLE_DIFFERS),
        (larger, Reason.BUNDLE_DIFFERS),
        (anothers_bundle, Reason.BUNDLE_DIFFERS),
        (nonsense_for_a_group, Reason.SCHEMA),
    ],
)
def test_who_announces_what_the_bundle_is_not_is_muted_not_who_holds_it_or_signed_it(
    made: Callable[[Stranger], tuple[Bundle, bytes]], reason: Reason
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        known = {**FINGERPRINTS, ("bf", "easy"): b"f" * 32}
        here, author = scene(clock, fingerprints=known), Stranger(AUTHOR, clock)
        bundle, announcement = made(author)
        here.transport.serving[author.address] = honestly(bundle)
        await here.look(announcement)
        assert here.collector.dropped == {reason: 1}
        assert here.muted == [(author.name, 3600.0)]
        assert len(here.pool) == 0

    simulate(scenario)


def test_who_is_muted_within_a_look_is_not_asked_again_in_it_nor_taken_from() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author, holder = scene(clock), Stranger(AUTHOR, clock), Stranger(HOLDER, clock)
        bundles = [author.bundle(author.group(index)) for index in range(8)]
        here.transport.serving[holder.address] = lambda _: FetchResponse("ok", b"junk", ())
        holders = [holder.address]
        await here.look(*(author.announcement(each, holders=holders) for each in bundles))
        assert len(here.transport.asked) == FETCHES_AT_ONCE
        assert here.collector.dropped == {Reason.HASH: 4, Reason.MUTED: 4}
        assert here.muted == [(holder.name, 3600.0)]
        liar = Stranger(VICTIM, clock)
        false, true = liar.bundle(b"\xc1"), liar.bundle(liar.group(6))
        here.transport.serving[liar.address] = honestly(false, true)
        here.transport.serving[author.address] = honestly(true)
        here.transport.seconds[author.address] = 1.0
        await here.look(liar.announcement(false), liar.announcement(true, holders=[author.address]))
        assert here.collector.dropped[Reason.SCHEMA] == 1
        assert len(here.pool) == 0

    simulate(scenario)


def test_another_version_of_the_protocol_is_ignored_under_its_own_name() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        announcement = author.announcement(author.bundle(author.group(5)))
        await here.look(announcement[:4] + b"\x02" + announcement[5:])
        assert here.collector.dropped == {Reason.UNKNOWN_VERSION: 1}
        assert here.muted == []

    simulate(scenario)


@pytest.mark.parametrize("reason", [Reason(each) for each in get_args(Rejection)])
def test_what_our_scorer_refuses_is_counted_for_its_author_and_punishes_nobody(
    reason: Reason,
) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, rewards=FirstIsRight(clock, [reason]))
        author = Stranger(AUTHOR, clock)
        await here.hears_of(author, 5)
        assert here.collector.dropped == {reason: 1}
        assert here.collector.standing.peers(clock.now()) == (author.name,)
        assert here.muted == []

    simulate(scenario)


@pytest.mark.parametrize("holders", [(), ("\x1b[2J",), ("/p2p/\x1b[2J",), ("x" * 256,)])
def test_announcements_without_a_holder_that_answers_are_counted(holders: Sequence[str]) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        await here.look(author.announcement(author.bundle(author.group(5)), holders=holders))
        assert here.collector.dropped == {Reason.UNREACHABLE: 1}
        assert here.muted == []
        assert all(map(str.isprintable, here.collector.standing.peers(clock.now())))

    simulate(scenario)


@pytest.mark.parametrize("seed", range(4))
def test_mutilated_bytes_of_every_kind_are_counted_and_never_raise(seed: int) -> None:
    rng = random.Random(seed)

    def mutilated(data: bytes) -> bytes:
        at = rng.randrange(len(data))
        kind = rng.randrange(3)
        if kind == 0:
            return data[:at]
        if kind == 1:
            return data + rng.randbytes(3)
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]

    def badly(bundle: Bundle) -> Serve:
        good = FetchResponse("ok", bundle.header_bytes, ((0, bundle.group_bytes[0]),))
        header = replace(good, header_bytes=mutilated(bundle.header_bytes))
        group = replace(good, groups=((0, mutilated(bundle.group_bytes[0])),))
        chosen = rng.choice([header, group])
        return lambda _request: chosen

    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock)
        for number in range(1, 41):
            author = Stranger(number, clock)
            bundle = author.bundle(author.group(number))
            here.transport.serving[author.address] = badly(bundle)
            announcement = author.announcement(bundle)
            await here.look(mutilated(announcement), peer="")
            await here.look(announcement)
        assert len(here.pool) == 0
        assert set(here.collector.dropped) <= {
            Reason.WIRE,
            Reason.SIGNATURE,
            Reason.HASH,
            Reason.UNKNOWN_VERSION,
            Reason.FOREIGN_SWARM,
        }
        assert sum(here.collector.dropped.values()) == 80
        assert [peer for peer, _ in here.muted] == [Stranger(n, clock).name for n in range(1, 41)]

    simulate(scenario)


def test_a_flood_of_forgeries_by_one_peer_is_verified_once() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        announcement = author.announcement(author.bundle(author.group(5)))
        at = len(announcement) - 2
        flood = [announcement[:at] + number.to_bytes(2, "big") for number in range(64)]
        await here.look(*flood)
        assert here.collector.dropped == {Reason.SIGNATURE: 1, Reason.MUTED: 63}
        assert here.muted == [(RELAY, 3600.0)]

    simulate(scenario)


def test_a_key_that_announces_much_is_fetched_from_no_sooner_than_others() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, flooding, modest = scene(clock), Stranger(AUTHOR, clock), Stranger(3, clock)
        bundles = [flooding.bundle(flooding.group(index)) for index in range(50)]
        here.transport.serving[flooding.address] = honestly(*bundles)
        other = modest.bundle(modest.group(5))
        here.transport.serving[modest.address] = honestly(other)
        await here.look(*map(flooding.announcement, bundles), modest.announcement(other))
        publishers = [each.group.publisher for each in here.pool.fresh(clock.now())]
        assert len(publishers) == 8
        assert publishers.count(modest.key) == 1
        assert here.collector.dropped == {Reason.OVER_BUDGET: 43}

    simulate(scenario)


def test_groups_that_are_dead_against_their_claim_take_no_place_in_the_pool() -> None:
    class Strict:
        async def score_external(
            self, groups: Sequence[Group], prefix: str
        ) -> tuple[Sequence[Scored], Sequence[Reason]]:
            return [Scored(group, (0.0, 0.0), "external", 0.0) for group in groups], []

    async def scenario(clock: VirtualClock) -> None:
        author = Stranger(AUTHOR, clock)
        picky = scene(clock, rewards=Strict())
        taking = scene(clock, rewards=Strict(), wants_dead=True)
        await picky.hears_of(author, 5)
        await taking.hears_of(author, 6)
        assert picky.collector.dropped == {Reason.NOTHING_WANTED: 1}
        assert picky.collector.counts["admitted"] == 0
        assert picky.transport.held == []
        assert taking.collector.counts["admitted"] == 1

    simulate(scenario)


def test_what_is_remembered_of_strangers_is_bounded() -> None:
    async def scenario(clock: VirtualClock) -> None:
        standing, remembered = Standing(capacity=6), Remembered(items=5, keys=4)
        here = scene(clock, standing=standing, remembered=remembered)
        for number in range(3, 30):
            author = Stranger(number, clock)
            await here.hears_of(author, 5)
            await here.look(
                flipped(author.announcement(author.bundle(author.group(6)))), peer=str(number)
            )
        assert here.collector.counts["admitted"] == 27
        assert len(standing) == 6
        assert len(remembered) == 5 + 5 + 4

    simulate(scenario)


def test_blame_falls_on_one_of_two_and_only_under_rejection() -> None:
    assert {reason for reason in Reason if reason.verdict is Verdict.REJECT} == {
        Reason.WIRE,
        Reason.SIGNATURE,
        Reason.SCHEMA,
        Reason.UNASKED,
        Reason.HASH,
        Reason.BUNDLE_DIFFERS,
        Reason.EQUIVOCATION,
    }
    for reason in (Reason.SCHEMA, Reason.BUNDLE_DIFFERS, Reason.EQUIVOCATION):
        assert reason.concerns is Concerned.AUTHOR
