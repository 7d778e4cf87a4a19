"""Publishing and collecting over the in-memory network: the real wire format, hostile peers too."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.collect import Collector
from swarmnode.network.memory import MemoryNetwork
from swarmnode.network.shelf import Shelf
from swarmnode.network.transport import TransportError
from swarmnode.publish import Identity, Publisher
from swarmnode.selection.admission import AdmissionRules, Reason, Verdict
from swarmnode.selection.pool import Pool
from swarmnode.types import Group, Scored
from swarmproto import (
    FetchRequest,
    FetchResponse,
    decode_group,
    encode_group,
    public_key_of,
)
from tests.unit.made import scored

SWARM = b"s" * 32
FINGERPRINTS = {("basic_arithmetic", "easy"): b"f" * 32}


def identity(number: int) -> Identity:
    private = bytes([number]) * 32
    return Identity(private, public_key_of(private), private[:16])


class FirstIsRight:
    """Scores every group as live, without a scorer process."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    async def score_external(
        self, groups: Sequence[Group], prefix: str
    ) -> tuple[Sequence[Scored], Sequence[Reason]]:
        scores = (1.0, 0.0)
        return [Scored(group, scores, "external", self._clock.now()) for group in groups], []


@dataclass
class Peer:
    publisher: Publisher
    collector: Collector
    pool: Pool
    shelf: Shelf


def peer(number: int, network: MemoryNetwork, clock: VirtualClock, **rules: Any) -> Peer:
    who = identity(number)
    transport = network.endpoint(str(number))
    pool = Pool(capacity=100, age_seconds=600)
    standard: dict[str, Any] = {
        "swarm_id": SWARM,
        "fingerprints": FINGERPRINTS,
        "completion_tokens": 16,
        "clock_skew_seconds": 120.0,
        "wants_dead": False,
    }
    publisher = Publisher(
        identity=who,
        swarm_id=SWARM,
        transport=transport,
        clock=clock,
        fingerprints=FINGERPRINTS,
        announcement_seconds=300,
    )
    collector = Collector(
        own_key=who.public_key,
        rules=AdmissionRules(**(standard | rules)),
        transport=transport,
        rewards=FirstIsRight(clock),
        pool=pool,
        clock=clock,
        rng=random.Random(number),
        every_seconds=1.0,
        discover_count=64,
        groups_per_look=8,
    )
    network.join(str(number), transport.shelf.answer)
    return Peer(publisher, collector, pool, transport.shelf)


def own(number: int, *indices: int, scores: tuple[float, ...] = (1.0, 0.0)) -> list[Scored]:
    key = identity(number).public_key
    return [scored(scores, index=index, publisher=key, source="local") for index in indices]


async def publish(publishing: Peer, groups: Sequence[Scored], clock: VirtualClock) -> None:
    publishing.publisher.put(groups)
    running = asyncio.ensure_future(publishing.publisher.run())
    await clock.sleep(1.0)
    running.cancel()


def simulate(
    scenario: Callable[[VirtualClock, MemoryNetwork], Coroutine[Any, Any, None]], loss: float = 0.0
) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop)
        runner.run(scenario(clock, MemoryNetwork(clock, latency_seconds=0.1, loss=loss, seed=1)))


def test_what_one_node_publishes_another_collects_once_as_plain_text() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock)
        await publish(one, own(1, 5, 6), clock)
        await two.collector.look()
        await two.collector.look()
        received = two.pool.fresh(clock.now())
        assert {each.group.question.index for each in received} == {5, 6}
        group = received[0].group
        assert group.publisher == identity(1).public_key
        assert [completion.text for completion in group.completions] == ["0", "1"]
        assert group.completions[0].logprobs == (-0.5, -0.25)
        assert all(completion.token_ids is None for completion in group.completions)
        await one.collector.look()
        assert len(one.pool) == 0

    simulate(scenario)


def test_groups_claimed_dead_are_fetched_only_by_filters_that_want_them() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock)
        three = peer(3, network, clock, wants_dead=True)
        await publish(one, own(1, 7, scores=(0.0, 0.0)), clock)
        await two.collector.look()
        await three.collector.look()
        assert two.collector.dropped == {Reason.NOTHING_WANTED: 1}
        assert (len(two.pool), len(three.pool)) == (0, 1)

    simulate(scenario)


def test_an_index_answered_twice_by_one_key_is_taken_once() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock)
        await publish(one, own(1, 5), clock)
        await publish(one, own(1, 5), clock)
        await two.collector.look()
        assert len(two.pool) == 1
        assert two.collector.dropped == {Reason.GROUP_REPEATED: 1}

    simulate(scenario)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"fingerprints": {("bf", "easy"): b"f" * 32}}, Reason.NOTHING_WANTED),
        ({"fingerprints": {("basic_arithmetic", "easy"): b"x" * 32}}, Reason.UNKNOWN_FINGERPRINT),
        ({"completion_tokens": 1}, Reason.TOO_LONG),
        ({"swarm_id": b"t" * 32}, Reason.FOREIGN_SWARM),
    ],
)
def test_what_a_node_does_not_take_is_dropped_under_its_reason(
    rules: dict[str, object], reason: Reason
) -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock, **rules)
        await publish(one, own(1, 5), clock)
        await two.collector.look()
        assert two.collector.dropped == {reason: 1}
        assert len(two.pool) == 0

    simulate(scenario)


def test_announcements_expire_and_those_from_the_future_wait_in_vain() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock, clock_skew_seconds=-10.0)
        await publish(one, own(1, 5), clock)
        await two.collector.look()
        assert two.collector.dropped == {Reason.FROM_THE_FUTURE: 1}
        await clock.sleep(301)
        three = peer(3, network, clock)
        await three.collector.look()
        assert three.collector.dropped == {}
        assert len(three.pool) == 0

    simulate(scenario)


def test_altered_groups_never_enter_the_pool() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock)
        await publish(one, own(1, 5), clock)

        def lying(request: FetchRequest) -> FetchResponse:
            honest = one.shelf.answer(request)
            record = decode_group(honest.groups[0][1])
            other = encode_group(replace(record, answer="other"))
            return replace(honest, groups=((0, other),))

        network.join("1", lying)
        await two.collector.look()
        assert two.collector.dropped == {Reason.HASH: 1}
        assert Reason.HASH.verdict is Verdict.REJECT
        assert len(two.pool) == 0

    simulate(scenario)


def test_a_header_that_is_not_the_announced_one_is_refused() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two, three = (peer(n, network, clock) for n in (1, 2, 3))
        await publish(one, own(1, 5), clock)
        await publish(three, own(3, 6), clock)
        (other,) = three.shelf._held
        network.join("1", lambda request: three.shelf.answer(replace(request, bundle_id=other)))
        await two.collector.look()
        assert two.collector.dropped == {Reason.HASH: 1}
        assert len(two.pool) == 1

    simulate(scenario)


def test_lost_messages_and_gone_peers_are_counted_not_raised() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock)
        await publish(one, own(1, 5), clock)
        network.leave("1")
        await two.collector.look()
        assert two.collector.dropped == {Reason.UNREACHABLE: 1}
        with pytest.raises(TransportError):
            await network.endpoint("9").fetch("nobody", FetchRequest(SWARM, b"b" * 32, (0,)))

    simulate(scenario)


def test_the_network_loses_about_the_share_it_is_told_to() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        endpoint = network.endpoint("1")
        luck = random.Random(7)
        for number in range(400):
            network.publish(number.to_bytes(2, "big"), clock.now() + 100, luck)
        await clock.sleep(1.0)
        assert 200 < len(await endpoint.discover(1000)) < 320

    simulate(scenario, loss=0.35)


def test_putting_never_fails_and_gives_up_the_oldest_round() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock)
        for index in range(6):
            one.publisher.put(own(1, index))
        await publish(one, [], clock)
        await two.collector.look()
        indices = {each.group.question.index for each in two.pool.fresh(clock.now())}
        assert indices == {2, 3, 4, 5}
        assert one.publisher.counts["given_up"] == 2

    simulate(scenario)


def test_a_shelf_forgets_what_expires_and_what_exceeds_its_quota() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one = peer(1, network, clock)
        await publish(one, own(1, 5), clock)
        (name,) = one.shelf._held
        request = FetchRequest(SWARM, name, (0,))
        assert one.shelf.answer(request).status == "ok"
        assert one.shelf.answer(replace(request, swarm_id=b"t" * 32)).status == "missing"
        await clock.sleep(301)
        assert one.shelf.answer(request).status == "missing"
        small = Shelf(clock, quota_bytes=10)
        assert small.answer(replace(request, bundle_id=b"b" * 32)).status == "missing"

    simulate(scenario)


def test_a_group_that_may_not_travel_is_left_out_and_the_others_go() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock)
        bad, good = own(1, 4, 5)
        silent = replace(bad.group.completions[0], text="\x00")
        bad = replace(bad, group=replace(bad.group, completions=(silent, silent)))
        await publish(one, [bad, good], clock)
        await two.collector.look()
        (received,) = two.pool.fresh(clock.now())
        assert received.group.question.index == 5
        assert one.publisher.counts["unsendable"] == 1

    simulate(scenario)


def test_nothing_is_fetched_while_the_pool_is_full_of_usable_groups() -> None:
    async def scenario(clock: VirtualClock, network: MemoryNetwork) -> None:
        one, two = peer(1, network, clock), peer(2, network, clock)
        for index in range(100):
            two.pool.add(scored(index=index, received=clock.now()))
        await publish(one, own(1, 5), clock)
        await two.collector.look()
        assert two.collector.counts["fetched"] == 0
        two.pool.take(two.pool.fresh(clock.now())[:1])
        await two.collector.look()
        assert two.collector.counts["fetched"] == 1

    simulate(scenario)
