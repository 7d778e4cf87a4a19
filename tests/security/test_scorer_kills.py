"""Peers whose texts kill the scorer again and again are muted, and nobody else is."""

from __future__ import annotations

from swarmnode.clock import VirtualClock
from swarmnode.selection.admission import Reason
from tests.unit.collecting_support import FirstIsRight, Stranger, honestly, scene, simulate


def test_an_author_is_muted_for_the_third_group_that_kills_the_scorer_not_its_holder() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, rewards=FirstIsRight(clock, [Reason.SCORER_KILLED]))
        hostile, honest = Stranger(1, clock), Stranger(2, clock)
        for index in range(4):
            assert here.mutes(hostile.name) is (index == 3)
            bundle = hostile.bundle(hostile.group(index))
            here.transport.serving[honest.address] = honestly(bundle)
            await here.look(hostile.announcement(bundle, holders=[honest.address]))
        assert here.muted == [(hostile.name, 3600.0)]
        assert here.collector.dropped == {Reason.SCORER_KILLED: 3, Reason.MUTED: 1}
        assert not here.mutes(honest.name)

    simulate(scenario)


def test_a_scorer_that_is_slow_whatever_the_text_mutes_nobody() -> None:
    async def scenario(clock: VirtualClock) -> None:
        here = scene(clock, rewards=FirstIsRight(clock, [Reason.SCORER_SLOW]))
        for index in range(5):
            await here.hears_of(Stranger(1, clock, sequence=index), index)
        assert here.muted == []
        assert here.collector.dropped == {Reason.SCORER_SLOW: 5}

    simulate(scenario)
