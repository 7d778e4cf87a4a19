"""Seconds of the scorer by address prefix: who spends them, who waits, and who never pays."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.clock import SystemClock
from swarmnode.config.rewards import Rewards
from swarmnode.process import Child
from swarmnode.rewards.budget import ScorerBudget
from swarmnode.rewards.client import Judged, Scorer, Verdict, verdicts_in
from swarmnode.scored import NodeRewards
from swarmnode.selection.admission import Reason
from swarmnode.types import Group
from swarmnode.zygote import STARVED, seconds_left
from tests.unit.made import scored


def test_a_prefix_spends_what_it_saved_and_then_its_share() -> None:
    budget = ScorerBudget(share=0.1, saved=2.0)
    assert budget.left("a", 0.0) == 2.0
    budget.spend("a", 3.0, 0.0)
    assert budget.left("a", 0.0) == -1.0
    assert budget.left("a", 10.0) == pytest.approx(0.0)
    assert budget.left("a", 15.0) == pytest.approx(0.5)
    assert budget.left("a", 1e6) == 2.0


def test_prefixes_do_not_pay_for_one_another_and_a_clock_set_back_gives_nothing() -> None:
    budget = ScorerBudget(share=0.1, saved=2.0)
    budget.spend("a", 5.0, 100.0)
    assert budget.left("b", 100.0) == 2.0
    assert budget.left("a", 0.0) == -3.0
    assert budget.left("a", 10.0) == pytest.approx(-2.0)


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 5.0)), max_size=50))
def test_no_prefix_takes_more_than_was_saved_its_share_and_one_request(
    requests: list[tuple[float, float]],
) -> None:
    budget = ScorerBudget(share=0.1, saved=2.0)
    now = spent = 0.0
    for pause, cost in requests:
        now += pause
        if budget.left("a", now) > 0.0:
            budget.spend("a", cost, now)
            spent += cost
    assert spent <= 2.0 + 0.1 * now + 5.0 + 1e-9


def test_what_is_remembered_of_prefixes_is_bounded() -> None:
    budget = ScorerBudget(share=0.1, saved=2.0, capacity=3)
    for number in range(10):
        budget.spend(str(number), 5.0, 0.0)
    assert len(budget) == 3
    assert budget.left("9", 0.0) == -3.0
    assert budget.left("0", 0.0) == 2.0


class Costly(Scorer):
    """Takes a second for each group, and only as many groups as there are seconds."""

    def __init__(self) -> None:
        super().__init__(Child("none", name="none"), Rewards())
        self.asked: list[float] = []

    async def score(
        self, groups: Sequence[Group], *, expect_held_out: bool = False
    ) -> list[Verdict]:
        return [Verdict((1.0, 0.0))] * len(groups)

    async def score_external(self, groups: Sequence[Group], seconds: float = math.inf) -> Judged:
        self.asked.append(seconds)
        count = min(len(groups), max(0, math.ceil(seconds)) if seconds < math.inf else 100)
        left_out = [Verdict((0.0, 0.0), "scorer_budget")] * (len(groups) - count)
        return Judged([*[Verdict((1.0, 0.0))] * count, *left_out], float(count))


def test_over_budget_groups_of_a_prefix_are_dropped_by_name_and_own_groups_never() -> None:
    scorer = Costly()
    budget = ScorerBudget(share=1e-9, saved=3.0)
    rewards = NodeRewards(scorer, SystemClock(), lambda: 0.0, budget)
    groups = [scored([1.0, 0.0], index=index).group for index in range(2)]

    async def taken(prefix: str) -> tuple[int, Sequence[Reason]]:
        found, reasons = await rewards.score_external(groups, prefix)
        return len(found), reasons

    async def scenario() -> None:
        dropped = Reason.SCORER_BUDGET
        assert await taken("192.0.2.0/24") == (2, [])
        assert await taken("192.0.2.0/24") == (2, [])
        assert await taken("192.0.2.0/24") == (0, [dropped] * 2)
        assert await taken("198.51.100.0/24") == (2, [])
        # What is made up here costs nobody anything.
        for _ in range(5):
            assert await taken("") == (2, [])
            assert len(await rewards.score(groups)) == 2

    asyncio.run(scenario())
    assert scorer.asked[:3] == pytest.approx([3.0, 1.0, -1.0])


def test_in_virtual_time_the_declared_seconds_are_spent_whatever_the_machine_took() -> None:
    scorer = Costly()
    rewards = NodeRewards(scorer, SystemClock(), lambda: 0.5, ScorerBudget(1e-9, 0.9))
    groups = [scored([1.0, 0.0], index=index).group for index in range(2)]

    async def scenario() -> None:
        for left in (2, 2, 0):
            found, _ = await rewards.score_external(groups, "192.0.2.0/24")
            assert len(found) == left

    asyncio.run(scenario())


ONE = [scored([1.0, 0.0]).group]


@pytest.mark.parametrize(
    "answer",
    [
        None, "x", 1.0, [], [[[1.0, 0.0], None], [[1.0, 0.0], None]], [None], [[]], [[1.0, 0.0]],
        [[[1.0, 0.0]]], [[[1.0], None]], [[[1.0, 0.0, 0.0], None]], [[[1.0, 2.0], None]],
        [[[1.0, -0.1], None]], [[[1.0, math.nan], None]], [[[1.0, True], None]],
        [[[1.0, "0"], None]], [[[1.0, 0.0], "scorer_killed"]], [[[1.0, 0.0], ["held_out"]]],
        [[[1.0, 0.0], "anything"]], [[{}, None]], {"a": 1},
    ],
)  # fmt: skip
def test_what_is_no_verdict_of_these_groups_is_none(answer: object) -> None:
    assert verdicts_in(answer, ONE) is None


def test_a_verdict_of_each_group_is_taken() -> None:
    assert verdicts_in([[[1.0, 0.25], None]], ONE) == [Verdict((1.0, 0.25))]
    assert verdicts_in([[[0.0, 0.0], "held_out"]], ONE) == [Verdict((0.0, 0.0), "held_out")]


def test_a_worker_that_was_kept_from_the_processor_may_go_on_for_a_while() -> None:
    assert seconds_left(1.0, 0.25, 0.25, waits=False) == 0.75
    assert seconds_left(1.0, 1.0, 0.0, waits=False) == 0.0
    assert seconds_left(1.0, 1.5, 0.05, waits=True) == pytest.approx(0.2)
    assert seconds_left(1.0, 1.0, 0.5, waits=True) == 0.0
    assert seconds_left(1.0, STARVED, 0.05, waits=True) == 0.0
