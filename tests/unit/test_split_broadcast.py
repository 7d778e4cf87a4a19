"""The two loops where weights want everybody at once, in virtual time: nobody waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from swarmnode.clock import VirtualClock
from swarmnode.config.policy import PolicySettings
from swarmnode.process import ChildFailed
from swarmnode.split.loops import Split
from swarmnode.types import PolicyInfo, RoundReport
from tests.unit.split_machine import Machine, Sampler, lived, split_over
from tests.unit.test_split_loops import in_virtual_time, rounds_of, stale_share

TIMEOUT = 60.0


@dataclass
class Broadcasting(Machine):
    """A trainer that hands weights on to those who come within a minute."""

    offered: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    given_up: int = 0

    async def publish_weights(
        self, version: int, generators: Sequence[int] = ()
    ) -> Mapping[str, Any]:
        self.offered, self.ready, waited = set(generators), set(), 0.0
        while self.ready != self.offered:
            if waited > TIMEOUT:
                self.offered, self.given_up = set(), self.given_up + 1
                raise ChildFailed("one didn't come")
            await self.clock.sleep(0.1)
            waited += 0.1
        self.offered = set()
        return await super().publish_weights(version)


class Receiver(Sampler):
    """A generator that has weights only once it has taken part."""

    def __init__(self, machine: Broadcasting, group_seconds: float, number: int) -> None:
        super().__init__(machine, group_seconds)
        self.has_weights = False
        self.trainer, self.number, self.taken = machine, number, 0

    async def create(self, order: object) -> None:
        await super().create(order)
        self.has_weights = False

    async def take_weights(self) -> bool:
        if self.number not in self.trainer.offered:
            return False
        self.trainer.ready.add(self.number)
        while self.number in self.trainer.offered:
            await self.machine.clock.sleep(0.1)
        self.has_weights = self.trainer.available is not None
        self.info = PolicyInfo("machine", self.trainer.available or 0, b"")
        self.taken += 1
        return True

    async def generate(self, *asked: Any) -> Any:
        assert self.has_weights, "it samples without weights"
        return await super().generate(*asked)


def gone_through(
    round_seconds: float, group_seconds: Sequence[float], lost_before: int = 0, rounds: int = 60
) -> tuple[Split, Broadcasting, list[Receiver], list[RoundReport]]:
    """So many rounds; before one of them the first generator is killed."""

    async def scenario(
        clock: VirtualClock,
    ) -> tuple[Split, Broadcasting, list[Receiver], list[RoundReport]]:
        machine = Broadcasting(clock, round_seconds)
        receivers = [Receiver(machine, each, n) for n, each in enumerate(group_seconds, 1)]
        settings = PolicySettings.model_validate({"weights": {"channel": "broadcast"}})
        split = split_over(machine, receivers, settings, rounds_of())

        def between(number: int) -> None:
            if lost_before and number == lost_before:
                receivers[0].process.process_id = None

        async with asyncio.timeout(1e6):  # of the virtual clock: a deadlock ends the test
            return split, machine, receivers, await lived(split, machine, rounds, between)

    return in_virtual_time(scenario)


def test_every_generator_gets_every_version_and_no_round_waits_for_one_in_vain() -> None:
    split, machine, receivers, reports = gone_through(4.0, [1.0, 2.0])
    assert [report.round for report in reports] == list(range(1, 61))
    assert machine.given_up == 0
    assert all(one.taken >= 55 for one in receivers)
    assert stale_share(split) < 0.02
    assert all(one.sampled > 20 for one in receivers)


def test_generators_that_wait_to_begin_take_part_at_once() -> None:
    """Training is slow: they are throttled, and may not hold the trainer up."""
    _, machine, receivers, reports = gone_through(60.0, [0.1], rounds=20)
    assert machine.given_up == 0
    assert receivers[0].taken >= 19
    spent = [report.metrics["split/round_seconds"] for report in reports]
    assert max(spent) < 75.0


def test_one_that_came_back_gets_the_weights_that_the_others_have() -> None:
    _, machine, receivers, reports = gone_through(4.0, [1.0, 1.0], lost_before=10)
    assert receivers[0].created == 2
    assert len(reports) == 60
    assert machine.given_up <= 1, "whoever died was waited for more than once"
    assert receivers[0].taken > 40


def test_the_only_one_that_came_back_does_not_wait_for_a_round_that_waits_for_it() -> None:
    _, machine, receivers, reports = gone_through(4.0, [1.0], lost_before=10)
    assert len(reports) == 60
    assert receivers[0].created == 2
    assert machine.given_up <= 1
