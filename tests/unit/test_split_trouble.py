"""The two loops in virtual time where something fails or sleeps: they go on by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from swarmnode.clock import VIRTUAL_EPOCH_SECONDS, VirtualClock
from swarmnode.config.policy import PolicySettings
from swarmnode.observe.facts import Facts, SplitFacts
from swarmnode.observe.health import warnings
from swarmnode.process import ChildFailed, ChildGone
from swarmnode.split.loops import Split
from swarmnode.split.ready import Dropped
from swarmnode.split.status import split_facts
from swarmnode.types import Group, Question, RoundReport, Scored
from tests.unit.split_machine import Machine, Sampler, lived, split_over
from tests.unit.test_split_loops import Q, in_virtual_time, rounds_of


class Sleeping(Sampler):
    """One whose machine sleeps for a while in the middle of a batch."""

    def __init__(self, machine: Machine, group_seconds: float, batch: int, seconds: float) -> None:
        super().__init__(machine, group_seconds)
        self._batches, self._batch, self._seconds = 0, batch, seconds

    async def generate(self, questions: Sequence[Question], completions: int) -> Sequence[Group]:
        self._batches += 1
        if self._batches == self._batch:
            await self.machine.clock.sleep(self._seconds)
        return await super().generate(questions, completions)


@pytest.mark.parametrize("generators", [1, 3])
def test_a_machine_that_slept_goes_on_at_once(generators: int) -> None:
    async def scenario(clock: VirtualClock) -> tuple[float, float]:
        machine = Machine(clock, 4.0)
        samplers = [Sleeping(machine, 1.0, 3, 4e3) for _ in range(generators)]
        settings = PolicySettings(generators=generators, max_age=300.0)
        split = split_over(machine, samplers, settings, rounds_of())
        ended: list[float] = []
        await lived(split, machine, 60, lambda _number: ended.append(clock.now()))
        slept = max(later - earlier for earlier, later in pairwise(ended))
        return clock.now() - ended[0] - slept, slept

    awake, slept = in_virtual_time(scenario)
    assert slept > 3e3
    # Twice the time of sixty rounds, which are of single questions at first.
    assert awake < 2 * 60 * 4.0 + 60.0


def test_what_the_trainer_has_in_hand_becomes_too_old_as_well() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, RoundReport]:
        machine = Machine(clock, 1.0)
        sampler = Sampler(machine, 0.5)
        settings = PolicySettings(max_age=60.0)
        split = split_over(machine, [sampler], settings, rounds_of(2))
        split.queue.put(await scored_by(sampler, 1), clock.now())
        await split.begin(0, None, None)
        async with asyncio.TaskGroup() as tasks:
            trained = tasks.create_task(split.round(1))
            await clock.sleep(100.0)
            assert len(split._in_hand) == 1 - split.queue.dropped[Dropped.AGE]
            split.queue.put(await scored_by(sampler, 2), clock.now())
            split._ring()
            report = await trained
        return split, report

    split, report = in_virtual_time(scenario)
    assert split.queue.dropped[Dropped.AGE] == 1
    assert report.metrics["split/age_seconds"] < 5.0


async def scored_by(sampler: Sampler, count: int) -> Sequence[Scored]:
    """So many groups that it sampled just now."""
    machine = sampler.machine
    questions = await machine.draw({}, count)
    return await machine.score(await sampler.generate(questions, 2))


class Unpublished(Machine):
    """One whose weights cannot be handed over between two numbers of tries."""

    tries: list[float]
    first, last = 3, 10

    async def publish_weights(
        self, version: int, generators: Sequence[int] = ()
    ) -> Mapping[str, Any]:
        self.tries.append(self.clock.now())
        if self.first <= len(self.tries) < self.last:
            raise ChildFailed("no room")
        return await super().publish_weights(version, generators)


def test_weights_that_cannot_be_handed_over_are_tried_again_after_growing_pauses() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Unpublished, Split, list[RoundReport]]:
        machine = Unpublished(clock, 4.0)
        machine.tries = []
        split = split_over(machine, [Sampler(machine, 0.5)], PolicySettings(), rounds_of())
        return machine, split, await lived(split, machine, 30)

    machine, split, reports = in_virtual_time(scenario)
    assert len(reports) == 30
    failed = machine.tries[machine.first - 1 : machine.last]
    assert failed[-1] - failed[0] > 60.0, "as often as something happens"
    assert max(report.metrics["split/lag_max"] for report in reports) <= 4
    assert split.publishing.problem == ""
    assert machine.numbers == sorted(set(machine.numbers))


class Blind(Sampler):
    """One that finds the weights damaged which go out as a certain publication."""

    def __init__(self, machine: Machine, publication: int) -> None:
        super().__init__(machine, 0.5)
        self._publication = publication
        self.missed = 0

    async def take_weights(self) -> bool:
        if len(self.machine.numbers) == self._publication:
            self.missed += 1
            raise ChildFailed("the weights are damaged")
        return await super().take_weights()


@pytest.mark.parametrize("publication", [1, 8])
def test_weights_that_a_generator_cannot_take_go_out_anew(publication: int) -> None:
    async def scenario(clock: VirtualClock) -> tuple[Machine, Blind, Split, float]:
        machine = Machine(clock, 4.0)
        sampler = Blind(machine, publication)
        split = split_over(machine, [sampler], PolicySettings(), rounds_of())
        started = clock.now()
        await asyncio.wait_for(lived(split, machine, 20), 1e4)
        return machine, sampler, split, clock.now() - started

    machine, sampler, split, seconds = in_virtual_time(scenario)
    assert sampler.missed > 0
    assert machine.steps == 20
    assert split.publishing.versions.newest == 20 + (publication == 1)
    assert seconds < 20 * 6.0 + 10.0
    assert (split.generators[0].failures, split.generators[0].problem) == (0, "")


def test_a_generator_that_keeps_failing_says_why_and_is_asked_less_and_less() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, int]:
        machine = Machine(clock, 4.0)
        split = split_over(machine, [Blind(machine, 1)], PolicySettings(), rounds_of())
        machine.process.process_id = None  # nobody publishes anew
        machine.available = 0
        machine.numbers = [0]
        generating = asyncio.create_task(split.generate(split.generators[0]))
        await clock.sleep(600.0)
        generating.cancel()
        return split, machine.asked

    split, asked = in_virtual_time(scenario)
    assert asked == 0, "it asked what it could not answer"
    facts = split_facts(split, VIRTUAL_EPOCH_SECONDS)
    assert 10 <= facts.failures["generator-1"] <= 16
    assert facts.problem == "the weights are damaged"
    assert "generator-keeps-failing" in [each.code for each in warnings(Facts(split=facts))]


def test_what_a_long_wait_and_idle_sides_are_warned_of_is_what_the_loops_know() -> None:
    async def scenario(clock: VirtualClock) -> tuple[SplitFacts, SplitFacts, SplitFacts]:
        machine = Machine(clock, 1.0)
        sampler = Sampler(machine, 2.0)
        split = split_over(machine, [sampler], PolicySettings(), rounds_of())
        began = split_facts(split, clock.now())
        reports = await lived(split, machine, 20)
        assert len(reports) == 20
        busy = split_facts(split, clock.now())
        waits = asyncio.create_task(split.round(21))
        await clock.sleep(1000.0)
        waits.cancel()
        split.generators[0].waiting_since = clock.now() - 50.0
        return began, busy, split_facts(split, clock.now())

    began, busy, waits = in_virtual_time(scenario)
    assert began == SplitFacts()
    assert busy.trainer_idle_share > 0.7
    assert busy.generators_idle_share < 0.1
    assert (busy.failures, busy.trainer_waits_seconds) == ({}, 0.0)
    assert waits.trainer_waits_seconds == pytest.approx(1000.0)
    assert waits.held_back_seconds == {"generator-1": 50.0}


def test_a_step_that_was_taken_counts_whatever_fails_after_it() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, list[int]]:
        machine = Machine(clock, 4.0)
        split = split_over(machine, [Sampler(machine, 0.5)], PolicySettings(), rounds_of())
        await split.begin(0, None, None)

        async def failing(local: Sequence[Scored]) -> Mapping[str, float]:
            raise ChildFailed("the scheduler failed")

        counted = []
        async with asyncio.TaskGroup() as tasks:
            generating = split.generating(tasks)
            await split.round(1)
            update = split._node.scheduler.update
            split._node.scheduler.update = failing  # type: ignore[method-assign]
            with pytest.raises(ChildFailed, match="scheduler"):
                await split.round(2)
            counted += [machine.steps, split.publishing.versions.newest, machine.numbers[-1]]
            split._node.scheduler.update = update  # type: ignore[method-assign]
            await split.round(2)
            for task in generating:
                task.cancel()
        return split, [*counted, machine.numbers[-1]]

    split, counted = in_virtual_time(scenario)
    assert counted == [2, 2, 1, 3]
    assert split.queue.dropped[Dropped.TRAINER_LOST] == Q


def test_what_was_in_hand_when_the_trainer_was_lost_is_as_stale_as_what_waits() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, RoundReport]:
        machine = Machine(clock, 1.0)
        sampler = Sampler(machine, 0.5)
        split = split_over(machine, [sampler], PolicySettings(max_policy_lag=2), rounds_of(2))
        await split.begin(0, None, None)
        machine.steps = 9
        split.publishing.trained()
        machine.available = 9
        await sampler.take_weights()
        split.queue.put(await scored_by(sampler, 1), clock.now())

        async def dying(version: int, generators: Sequence[int] = ()) -> Mapping[str, Any]:
            raise ChildGone("the trainer died")

        publish = machine.publish_weights
        machine.publish_weights = dying  # type: ignore[method-assign]
        with pytest.raises(ChildGone):
            await split.round(1)
        assert not split._in_hand
        machine.publish_weights = publish  # type: ignore[method-assign]
        machine.steps = 0
        await split.went_back(forget=False)
        await sampler.take_weights()
        split.queue.put(await scored_by(sampler, 2), clock.now())
        return split, await split.round(1)

    split, report = in_virtual_time(scenario)
    assert split.queue.dropped[Dropped.LAG] == 1
    assert report.metrics["split/lag_max"] == 0
