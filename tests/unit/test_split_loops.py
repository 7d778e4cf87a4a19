"""The two loops in virtual time: overlap, staleness, and what the loss of a side costs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import pytest

from swarmnode.clock import VirtualClock, VirtualLoop
from swarmnode.config.policy import PolicySettings
from swarmnode.config.rounds import Rounds
from swarmnode.split.loops import Split
from swarmnode.split.ready import Dropped
from swarmnode.types import RoundReport, Scored
from tests.unit.split_machine import Machine, Sampler, lived, split_over

Q = 4
Result = TypeVar("Result")


def in_virtual_time(scenario: Callable[[VirtualClock], Coroutine[Any, Any, Result]]) -> Result:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        return runner.run(scenario(VirtualClock(loop)))


def rounds_of(questions: int = Q, **more: Any) -> Rounds:
    return Rounds(local_groups_per_round=questions, external_groups_per_round=0, **more)


def stale_share(split: Split) -> float:
    return (split.queue.dropped[Dropped.LAG] + split.queue.dropped[Dropped.AGE]) / max(
        1, split.queue.put_in
    )


def gone_through(
    round_seconds: float,
    group_seconds: Sequence[float],
    rounds: int = 300,
    **settings: Any,
) -> tuple[Split, Machine, list[Sampler], list[RoundReport], float]:
    """So many rounds, and the seconds that each took on average."""

    async def scenario(
        clock: VirtualClock,
    ) -> tuple[Split, Machine, list[Sampler], list[RoundReport], float]:
        machine = Machine(clock, round_seconds)
        samplers = [Sampler(machine, each) for each in group_seconds]
        split = split_over(machine, samplers, PolicySettings(**settings), rounds_of())
        started = clock.now()
        reports = await lived(split, machine, rounds)
        return split, machine, samplers, reports, (clock.now() - started) / rounds

    return in_virtual_time(scenario)


@pytest.mark.parametrize("group_seconds", [0.25, 0.9, 1.0, 1.1, 4.0])
@pytest.mark.parametrize("max_policy_lag", [1, 4])
def test_a_round_takes_as_long_as_the_slower_side_and_nothing_becomes_stale(
    group_seconds: float, max_policy_lag: int
) -> None:
    split, _, _, reports, seconds = gone_through(
        4.0, [group_seconds], max_policy_lag=max_policy_lag
    )
    assert max(report.metrics["split/lag_max"] for report in reports) <= max_policy_lag
    assert stale_share(split) == 0.0
    # The issue asks for 85 % of the bound on a machine; here only the batches' sizes cost.
    assert max(4.0, Q * group_seconds) / seconds > 0.85


def test_without_any_lag_the_sides_take_turns() -> None:
    split, _, _, reports, seconds = gone_through(4.0, [1.0], max_policy_lag=0)
    assert [report.metrics["split/lag_max"] for report in reports] == [0] * len(reports)
    assert seconds == pytest.approx(8.0, rel=0.05)
    assert stale_share(split) == 0.0


@pytest.mark.parametrize(
    "group_seconds",
    [
        (1.0, 1.0),
        (2.0, 2.0),
        (0.5, 5.0),
        (1.0, 3.0),
        (0.5, 0.5, 12.0),
        (4.0, 4.0, 4.0, 4.0),
        (1.0,) * 8,
        (0.5, 1.0, 2.0, 4.0, 8.0),
    ],
)
@pytest.mark.parametrize("max_policy_lag", [2, 4])
def test_a_generator_that_lags_is_throttled_and_less_than_2_percent_is_thrown_away(
    group_seconds: Sequence[float], max_policy_lag: int
) -> None:
    split, machine, samplers, _, seconds = gone_through(
        4.0, group_seconds, max_policy_lag=max_policy_lag, generators=len(group_seconds)
    )
    assert stale_share(split) < 0.02
    # All of them work, and none costs the others anything.
    bound = max(4.0, Q / sum(1.0 / each for each in group_seconds))
    assert bound / seconds > 0.8
    assert set(machine.trained.values()) == {1}
    assert samplers[0].sampled > 0


def test_a_generator_that_becomes_slow_is_held_back_and_comes_back_once_it_is_fast_again() -> None:
    async def scenario(clock: VirtualClock) -> tuple[float, list[int]]:
        machine = Machine(clock, 4.0)
        samplers = [Sampler(machine, 1.0), Sampler(machine, 2.0)]
        split = split_over(machine, samplers, PolicySettings(generators=2), rounds_of())
        shares: list[int] = []

        def between(number: int) -> None:
            if number in (100, 400, 700):
                shares.append(samplers[1].sampled)
            samplers[1].group_seconds = 30.0 if 100 <= number < 400 else 2.0

        await lived(split, machine, 1000, between)
        shares.append(samplers[1].sampled)
        return stale_share(split), shares

    stale, (before, during, after, last) = in_virtual_time(scenario)
    assert stale < 0.02
    assert during - before < 0.2 * (last - after)
    assert last - after > 100


def test_a_lost_trainer_comes_back_under_a_higher_number_and_nothing_is_trained_on_twice() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, Machine, list[RoundReport]]:
        machine = Machine(clock, 4.0, dies_in_step=31)
        samplers = [Sampler(machine, 0.5), Sampler(machine, 0.7)]
        split = split_over(machine, samplers, PolicySettings(generators=2), rounds_of())
        return split, machine, await lived(split, machine, 60, checkpoint=25)

    split, machine, reports = in_virtual_time(scenario)
    assert machine.numbers == sorted(set(machine.numbers))
    assert machine.steps == 25 + 30
    assert split.publishing.versions.newest > machine.steps
    assert max(machine.trained.values()) == 1
    assert split.queue.dropped[Dropped.TRAINER_LOST] == Q
    assert [report.round for report in reports] == list(range(1, 61))
    # Of what the generators had ready while it was away, the rest was near enough to the checkpoint
    # or was dropped, and its lag is told as it is.
    assert max(report.metrics["split/lag_max"] for report in reports) <= 4


def test_a_new_life_goes_on_above_what_the_last_report_told() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, Machine]:
        machine = Machine(clock, 4.0, steps=5)
        split = split_over(machine, [Sampler(machine, 0.5)], PolicySettings(), rounds_of())
        await split.begin(9, {"version_offset": 3}, {"metrics": {"split/version": 25}})
        return split, machine

    split, machine = in_virtual_time(scenario)
    assert machine.numbers == [split.publishing.versions.newest] == [27]
    assert split.to_values() == {"version_offset": 22}


def test_a_trainer_that_dies_while_it_waits_loses_no_group() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, Machine]:
        machine = Machine(clock, 0.1)
        split = split_over(machine, [Sampler(machine, 2.0)], PolicySettings(), rounds_of())

        once = iter([True])

        def between(number: int) -> None:
            if number == 10 and next(once, False):
                machine.process.process_id = None

        await lived(split, machine, 20, between, checkpoint=9)
        return split, machine

    split, machine = in_virtual_time(scenario)
    assert split.queue.dropped.total() == 0
    assert len(machine.trained) == 20 * Q


def test_whoever_has_come_in_a_lost_one_s_place_is_given_a_policy_first() -> None:
    """Also where the place is taken again before anybody has looked."""

    async def scenario(clock: VirtualClock) -> tuple[Split, Machine, Sampler]:
        machine = Machine(clock, 4.0)
        sampler = Sampler(machine, 0.8)
        split = split_over(machine, [sampler], PolicySettings(), rounds_of())

        def between(number: int) -> None:
            if number == 5:
                sampler.process.start()

        await lived(split, machine, 12, between)
        return split, machine, sampler

    split, _, sampler = in_virtual_time(scenario)
    assert sampler.process.starts == 2
    assert sampler.created == 2
    assert split.queue.dropped.total() == 0


def test_a_lost_generator_is_made_anew_and_costs_its_batch_alone() -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, Machine, Sampler]:
        machine = Machine(clock, 4.0)
        samplers = [Sampler(machine, 0.8), Sampler(machine, 0.8)]
        split = split_over(machine, samplers, PolicySettings(generators=2), rounds_of())

        def between(number: int) -> None:
            if number == 20:
                samplers[0].process.process_id = None

        await lived(split, machine, 60, between)
        return split, machine, samplers[0]

    split, machine, lost = in_virtual_time(scenario)
    assert lost.created == 2
    assert lost.process.starts == 2
    assert max(machine.trained.values()) == 1
    assert split.queue.dropped.total() == 0
    assert all(one.under_way <= Q for one in split.generators)


@pytest.mark.parametrize("back", [5, 9])
def test_a_rollback_leaves_nothing_of_the_policy_that_is_left_behind(back: int) -> None:
    async def scenario(clock: VirtualClock) -> tuple[Split, int, list[RoundReport]]:
        machine = Machine(clock, 4.0)
        split = split_over(machine, [Sampler(machine, 0.5)], PolicySettings(), rounds_of())
        reports: list[RoundReport] = []
        await split.begin(0, None, None)
        async with asyncio.TaskGroup() as tasks:
            generating = split.generating(tasks)
            for number in range(1, 21):
                reports.append(await split.round(number))
                if number == 10:
                    machine.steps = back
                    await clock.sleep(3.0)  # a batch by the weights that were found wrong
                    await split.went_back(forget=True)
            for task in generating:
                task.cancel()
        return split, machine.steps, reports

    split, steps, reports = in_virtual_time(scenario)
    assert steps == back + 10
    assert split.queue.dropped[Dropped.ROLLED_BACK] > 0
    # The first group after it was sampled by what the policy went back to.
    assert reports[10].metrics["split/lag_max"] == 0


def test_a_round_that_asks_on_takes_what_it_wants_however_little_is_live() -> None:
    async def scenario(clock: VirtualClock) -> tuple[list[RoundReport], int]:
        machine = Machine(clock, 1.0)
        batches: list[int] = []

        async def score(groups: Any) -> Any:
            found = await Machine.score(machine, groups)
            return [
                type(one)(one.group, (0.0, 0.0), "local", one.received)
                if one.group.question.index % 5
                else one
                for one in found
            ]

        machine.score = score  # type: ignore[method-assign]
        split = split_over(
            machine,
            [Sampler(machine, 0.1)],
            PolicySettings(max_policy_lag=0),
            rounds_of(dynamic_sampling=True, questions_limit=40),
        )
        put = split.queue.put

        def putting(groups: Sequence[Scored], begun: float) -> None:
            batches.append(len(groups))
            put(groups, begun)

        split.queue.put = putting  # type: ignore[method-assign]
        return await lived(split, machine, 5), max(batches)

    reports, largest = in_virtual_time(scenario)
    assert largest <= Q, "a generator asked on by itself"
    assert {report.metrics["generated/live_groups"] for report in reports} == {float(Q)}
    assert min(report.metrics["generated/groups"] for report in reports) > 2 * Q


def test_nothing_is_generated_beyond_the_last_round() -> None:
    async def scenario(clock: VirtualClock) -> tuple[int, int]:
        machine = Machine(clock, 4.0)
        split = split_over(machine, [Sampler(machine, 0.1)], PolicySettings(), rounds_of())
        split._last_round = 7
        await lived(split, machine, 7)
        return split.queue.put_in, len(split.queue)

    assert in_virtual_time(scenario) == (7 * Q, 0)
