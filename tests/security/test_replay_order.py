"""M7: what is repeated, old, early, of another swarm, or changed in one bit is never trained on."""

from __future__ import annotations

import hashlib

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.selection.admission import Reason
from swarmnode.selection.remembered import Remembered
from swarmproto import FetchRequest, FetchResponse
from tests.unit.collecting_support import RELAY, Stranger, honestly, scene, simulate

AUTHOR, HOLDER = 1, 2
SIGNATURE = range(69, 133)
"""Where an envelope has it: after magic, version, swarm id and public key."""


def test_two_bundles_under_one_sequence_number_mute_who_signed_them() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author, holder = scene(clock), Stranger(AUTHOR, clock), Stranger(HOLDER, clock)
        await here.hears_of(author, 5)
        author.sequence -= 1
        second = author.bundle(author.group(6))
        here.transport.serving[holder.address] = honestly(second)
        await here.look(author.announcement(second, holders=[holder.address]))
        assert here.collector.dropped == {Reason.EQUIVOCATION: 1}
        assert here.muted == [(author.name, 3600.0)]
        assert len(here.pool) == 1

    simulate(scenario)


def test_equivocation_is_seen_within_one_look_too() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        first = author.bundle(author.group(5))
        author.sequence -= 1
        second = author.bundle(author.group(6))
        here.transport.serving[author.address] = honestly(first, second)
        await here.look(author.announcement(first), author.announcement(second))
        assert here.collector.dropped == {Reason.EQUIVOCATION: 1}
        assert len(here.pool) == 1

    simulate(scenario)


def test_replays_are_never_pooled_twice_and_mute_nobody() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        bundle = author.bundle(author.group(5))
        here.transport.serving[author.address] = honestly(bundle)
        announcement = author.announcement(bundle)
        for peer in (RELAY, author.name, RELAY):
            await here.look(announcement, announcement, peer=peer)
        assert len(here.transport.asked) == 1
        await clock.sleep(1)
        await here.look(author.announcement(bundle))
        assert here.collector.dropped == {Reason.GROUP_REPEATED: 1}
        await here.hears_of(author, 5)
        assert here.collector.dropped == {Reason.GROUP_REPEATED: 2}
        assert len(here.pool) == 1
        assert here.muted == []

    simulate(scenario)


def test_a_sequence_number_from_before_the_window_is_ignored() -> None:
    async def scenario(clock: VirtualClock) -> None:
        remembered, author = Remembered(), Stranger(AUTHOR, clock)
        for sequence in range(2, 1028):
            remembered.accept(author.key, sequence, bytes(32))
        here = scene(clock, remembered=remembered)
        await here.hears_of(author, 5)
        assert here.collector.dropped == {Reason.STALE_SEQUENCE: 1}
        assert here.muted == []

    simulate(scenario)


def test_an_expired_announcement_that_is_replayed_mutes_nobody() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        announcement = author.announcement(author.bundle(author.group(5)))
        await clock.sleep(301)
        await here.look(announcement)
        assert here.collector.dropped == {Reason.EXPIRED: 1}
        assert here.muted == []

    simulate(scenario)


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_ten_minutes_off_punishes_nobody(minutes: int) -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        bundle = one.bundle(one.group(5), created=clock.now() + minutes * 60)
        here.transport.serving[one.address] = honestly(bundle)
        created = int((clock.now() + minutes * 60) * 1000)
        announcement = one.announcement(bundle, created=created, expires=created + 300_000)
        await here.look(announcement)
        expected = Reason.EXPIRED if minutes < 0 else Reason.FROM_THE_FUTURE
        assert here.collector.dropped == {expected: 1}
        assert here.muted == []

    simulate(scenario)


def test_a_header_from_the_future_is_ignored_even_if_its_announcement_is_not() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, one = scene(clock), Stranger(1, clock)
        bundle = one.bundle(one.group(5), created=clock.now() + 600)
        here.transport.serving[one.address] = honestly(bundle)
        await here.look(one.announcement(bundle))
        assert here.collector.dropped == {Reason.FROM_THE_FUTURE: 1}
        assert here.muted == []

    simulate(scenario)


@pytest.mark.parametrize("kind", ["announcement", "header"])
def test_with_any_byte_of_a_signature_changed_nothing_is_trained_on(kind: str) -> None:
    async def scenario(clock: VirtualClock) -> None:
        for at in SIGNATURE:
            here, author = scene(clock), Stranger(AUTHOR, clock)
            bundle = author.bundle(author.group(5))
            header, announcement = bundle.header_bytes, author.announcement(bundle)
            if kind == "header":
                header = _flipped(header, at)
                name = hashlib.sha256(header).digest()
                announcement = author.announcement(bundle, bundle_id=name)
            else:
                announcement = _flipped(announcement, at)
            groups = ((0, bundle.group_bytes[0]),)

            def serve(
                _: FetchRequest,
                header: bytes = header,
                groups: tuple[tuple[int, bytes], ...] = groups,
            ) -> FetchResponse:
                return FetchResponse("ok", header, groups)

            here.transport.serving[author.address] = serve
            await here.look(announcement)
            assert here.collector.dropped == {Reason.SIGNATURE: 1}
            assert len(here.pool) == 0

    simulate(scenario)


def test_what_is_of_another_swarm_is_not_trained_on() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        bundle = author.bundle(author.group(5))
        here.transport.serving[author.address] = honestly(bundle)
        await here.look(author.announcement(bundle, swarm_id=bytes(32)))
        assert here.collector.dropped == {Reason.FOREIGN_SWARM: 1}
        assert here.transport.asked == []
        assert len(here.pool) == 0

    simulate(scenario)


def test_a_replay_after_a_restart_is_not_trained_on() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here, author = scene(clock), Stranger(AUTHOR, clock)
        bundle = author.bundle(author.group(5))
        here.transport.serving[author.address] = honestly(bundle)
        await here.look(author.announcement(bundle))
        assert len(here.pool) == 1
        remembered = Remembered()
        remembered.restore_windows(here.collector.remembered.changed_windows())
        again = scene(clock, remembered=remembered)
        again.transport.serving[author.address] = honestly(bundle)
        await again.look(author.announcement(bundle))
        assert len(again.pool) == 0
        assert again.collector.dropped == {Reason.GROUP_REPEATED: 1}

    simulate(scenario)


def _flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
