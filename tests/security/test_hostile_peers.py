"""Peers that lie, flood and send nonsense: nothing raises, nothing grows, nobody is crowded out."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import get_args

import pytest

from swarmnode.clock import VirtualClock
from swarmnode.network.memory import MemoryNetwork
from swarmnode.rewards.client import Rejection
from swarmnode.selection.admission import Reason, Verdict
from swarmnode.types import Group, Scored
from swarmnode.wire import group_record, policy_label
from swarmproto import (
    AnnouncedGroup,
    AnnouncementDraft,
    Bundle,
    FetchRequest,
    FetchResponse,
    bundle_id,
    bundle_size,
    encode_group,
    seal_announcement,
    seal_bundle,
)
from tests.unit.made import POLICY, scored
from tests.unit.test_swarm_traffic import (
    FINGERPRINTS,
    SWARM,
    identity,
    own,
    peer,
    publish,
    simulate,
)

LIVE = AnnouncedGroup("basic_arithmetic", "easy", 1, 2)


@dataclass
class Stranger:
    """A peer that signs and serves whatever it likes."""

    number: int
    network: MemoryNetwork
    clock: VirtualClock
    sequence: int = 0

    def bundle(self, groups: Sequence[Scored]) -> Bundle:
        self.sequence += 1
        fingerprint = FINGERPRINTS["basic_arithmetic", "easy"]
        encoded = [encode_group(group_record(each.group, fingerprint)) for each in groups]
        private = identity(self.number).private_key
        return seal_bundle(private, SWARM, self.sequence, 1, policy_label(POLICY), encoded)

    def announcement(
        self,
        bundle: Bundle,
        claimed: Sequence[AnnouncedGroup] = (LIVE,),
        holders: Sequence[str] | None = None,
    ) -> bytes:
        created = int(self.clock.now() * 1000)
        return seal_announcement(
            identity(self.number).private_key,
            SWARM,
            AnnouncementDraft(
                instance=bytes(16),
                bundle_id=bundle_id(bundle.header_bytes),
                size=bundle_size(bundle),
                groups=tuple(claimed),
                policy_version=0,
                created=created,
                expires=created + 300_000,
                holders=(str(self.number),) if holders is None else tuple(holders),
            ),
        )

    async def announce(self, announcement: bytes) -> None:
        luck = random.Random(f"{self.number}/{self.sequence}")
        self.network.publish(announcement, self.clock.now() + 300, luck)
        await self.clock.sleep(1.0)

    def serve(self, *bundles: Bundle) -> None:
        """Answer every fetch with whole bundles, whatever positions were asked for."""
        held = {bundle_id(bundle.header_bytes): bundle for bundle in bundles}

        def answer(request: FetchRequest) -> FetchResponse:
            bundle = held[request.bundle_id]
            groups = tuple((at, bundle.group_bytes[0]) for at in range(64))
            return FetchResponse("ok", bundle.header_bytes, groups)

        self.network.join(str(self.number), answer)


def test_every_reason_of_the_scorer_is_one_that_is_counted() -> None:
    assert {Reason(rejection).value for rejection in get_args(Rejection)} == set(
        get_args(Rejection)
    )


@pytest.mark.parametrize("claimed", [1, 3, 64])
def test_a_bundle_with_fewer_or_more_groups_than_announced_is_refused(claimed: int) -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        two, stranger = peer(2, network, clock), Stranger(1, network, clock)
        bundle = stranger.bundle(own(1, 5, 6))
        stranger.serve(bundle)
        await stranger.announce(stranger.announcement(bundle, [LIVE] * claimed))
        await two.collector.look()
        assert len(two.pool) == 0
        assert two.collector.dropped[Reason.BUNDLE_DIFFERS] == 1

    simulate(scenario)


@pytest.mark.parametrize("holders", [(), ("\x1b[2J", "1"), ("x" * 256,)])
def test_announcements_without_a_holder_that_answers_are_counted(holders: Sequence[str]) -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        two, stranger = peer(2, network, clock), Stranger(1, network, clock)
        await stranger.announce(stranger.announcement(stranger.bundle(own(1, 5)), holders=holders))
        await two.collector.look()
        assert two.collector.dropped == {Reason.UNREACHABLE: 1}

    simulate(scenario)


def test_a_group_of_another_task_than_announced_is_refused() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        known = {**FINGERPRINTS, ("bf", "easy"): FINGERPRINTS["basic_arithmetic", "easy"]}
        two = peer(2, network, clock, fingerprints=known)
        stranger = Stranger(1, network, clock)
        bundle = stranger.bundle([scored(task="bf", publisher=identity(1).public_key)])
        stranger.serve(bundle)
        await stranger.announce(stranger.announcement(bundle))
        await two.collector.look()
        assert two.collector.dropped == {Reason.BUNDLE_DIFFERS: 1}
        assert len(two.pool) == 0

    simulate(scenario)


def test_another_version_of_the_protocol_is_ignored_under_its_own_name() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        two, stranger = peer(2, network, clock), Stranger(1, network, clock)
        announcement = stranger.announcement(stranger.bundle(own(1, 5)))
        await stranger.announce(announcement[:4] + b"\x02" + announcement[5:])
        await two.collector.look()
        assert two.collector.dropped == {Reason.UNKNOWN_VERSION: 1}
        assert Reason.UNKNOWN_VERSION.verdict is Verdict.IGNORE

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

    def handed(response: FetchResponse, request: FetchRequest) -> FetchResponse:
        return response

    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        two, stranger = peer(2, network, clock), Stranger(1, network, clock)
        for _ in range(40):
            bundle = stranger.bundle(own(1, stranger.sequence))
            good = FetchResponse("ok", bundle.header_bytes, ((0, bundle.group_bytes[0]),))
            header = replace(good, header_bytes=mutilated(bundle.header_bytes))
            group = replace(good, groups=((0, mutilated(bundle.group_bytes[0])),))
            network.join("1", partial(handed, rng.choice([header, group])))
            await stranger.announce(mutilated(stranger.announcement(bundle)))
            await stranger.announce(stranger.announcement(bundle))
            await two.collector.look()
        assert len(two.pool) == 0
        assert set(two.collector.dropped) <= {
            Reason.WIRE,
            Reason.BUNDLE_DIFFERS,
            Reason.UNKNOWN_VERSION,
            Reason.FOREIGN_SWARM,
        }
        assert sum(two.collector.dropped.values()) == 80

    simulate(scenario)


def test_a_key_that_announces_much_is_fetched_from_no_sooner_than_others() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        two, three, stranger = (
            peer(2, network, clock),
            peer(3, network, clock),
            Stranger(1, network, clock),
        )
        bundles = [stranger.bundle(own(1, index)) for index in range(50)]
        stranger.serve(*bundles)
        for bundle in bundles:
            await stranger.announce(stranger.announcement(bundle))
        await publish(three, own(3, 5), clock)
        await two.collector.look()
        publishers = [each.group.publisher for each in two.pool.fresh(clock.now())]
        assert len(publishers) == 8
        assert publishers.count(identity(3).public_key) == 1
        assert two.collector.dropped == {Reason.OVER_BUDGET: 43}

    simulate(scenario)


def test_groups_that_are_dead_against_their_claim_take_no_place_in_the_pool() -> None:
    class Strict:
        async def score_external(
            self, groups: Sequence[Group]
        ) -> tuple[Sequence[Scored], Sequence[Reason]]:
            return [Scored(group, (0.0, 0.0), "external", 0.0) for group in groups], []

    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        stranger = Stranger(1, network, clock)
        two, three = peer(2, network, clock), peer(3, network, clock, wants_dead=True)
        bundle = stranger.bundle(own(1, 5))
        stranger.serve(bundle)
        await stranger.announce(stranger.announcement(bundle))
        for each in (two, three):
            each.collector._rewards = Strict()
            await each.collector.look()
        assert two.collector.dropped == {Reason.NOTHING_WANTED: 1}
        assert two.collector.counts["admitted"] == 0
        assert three.collector.counts["admitted"] == 1

    simulate(scenario)


def test_what_is_remembered_of_strangers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarmnode.collect.REMEMBERED", 5)
    monkeypatch.setattr("swarmnode.collect.REMEMBERED_KEYS", 4)

    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        two = peer(2, network, clock)
        for number in range(3, 12):
            stranger = Stranger(number, network, clock)
            bundle = stranger.bundle(own(number, 5))
            stranger.serve(bundle)
            await stranger.announce(stranger.announcement(bundle))
            await two.collector.look()
        assert two.collector.counts["admitted"] >= 9
        collector = two.collector
        sizes = [len(memory) for memory in (collector._seen, collector._spent, collector._windows)]
        assert sizes == [5, 5, 4]

    simulate(scenario)
