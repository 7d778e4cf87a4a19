"""What a daemon does about its guard-rails, with a real policy in a host of its own."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from swarmnode.children import policy_child
from swarmnode.clock import SystemClock
from swarmnode.config.guard_rails import GuardAction, GuardRails
from swarmnode.config.selection import Selection
from swarmnode.guard_rails import Rails
from swarmnode.guarding import Guarding
from swarmnode.keeper import PolicyKeeper
from swarmnode.policy.client import Durations, RemotePolicy
from swarmnode.policy.order import PolicyOrder
from swarmnode.process import Child
from swarmnode.rewards.channels import rewards
from swarmnode.selection.bounds import ExternalBounds
from swarmnode.types import Evaluation, Question, RoundReport, Scored, TaskRewards
from tests.unit.made import scored
from tests.unit.resume_support import order

FIRST = 4
ASKED = {"a": "easy"}
QUESTIONS = [Question("a", "easy", n, f"Calculate {n} + {n}.", str(n)) for n in range(4)]


def report(metrics: dict[str, float]) -> RoundReport:
    return RoundReport(0, 1, 0.0, TaskRewards({}), TaskRewards({}), metrics=metrics)


def bounds() -> ExternalBounds:
    return ExternalBounds(Selection(), use="on", share=0.5, positive=True, longest=8)


async def sampled(policy: RemotePolicy, generator: random.Random) -> list[Scored]:
    groups = await policy.generate(QUESTIONS, 4)
    scores = [tuple(float(generator.random() < 0.5) for _ in range(4)) for _ in groups]
    return [Scored(group, each, "local", 0.0) for group, each in zip(groups, scores, strict=True)]


@pytest.fixture(scope="module")
def host() -> Iterator[Child]:
    child = policy_child({}, "policy host")
    child.start()
    yield child
    child.close_now()


def with_policy(
    host: Child,
    folder: Path,
    action: GuardAction,
    body: Callable[[RemotePolicy, PolicyKeeper, Rails, Guarding], Awaitable[None]],
) -> None:
    """Run `body` with a new policy of the host, its keeper and its guard-rails."""
    policy = RemotePolicy(
        host,
        0,
        publisher=b"p" * 32,
        clock=SystemClock(),
        durations=Durations(generate=lambda: 0.0, train=lambda: 0.0),
        rewards=rewards,
    )

    async def ordered() -> PolicyOrder:
        return PolicyOrder(**order())

    async def run() -> None:
        keeper = PolicyKeeper(host, policy, ordered, folder)
        rails = Rails(GuardRails(first_rounds=FIRST, action=action), ASKED)
        assert await keeper.start() is None
        await body(policy, keeper, rails, Guarding(rails, bounds(), keeper))

    asyncio.run(run())


def test_a_policy_goes_back_to_the_last_checkpoint_that_was_written_while_all_was_well(
    host: Child, tmp_path: Path
) -> None:
    async def body(
        policy: RemotePolicy, keeper: PolicyKeeper, rails: Rails, guarding: Guarding
    ) -> None:
        generator = random.Random(0)
        for _ in range(FIRST):
            rails.watch(await sampled(policy, generator))
        assert guarding.may_save
        assert await guarding.save({"round": 4})
        answers = await policy.answer(QUESTIONS * 2, "sampled", 5)
        for _ in range(3):
            assert not await guarding.after(report({}))
            local = await sampled(policy, generator)
            await policy.train(local)
            told = rails.heard({"steps/skipped_nonfinite_gradient": 1.0})
            # What is written now would not be worth going back to.
            assert not guarding.may_save
        assert policy.info.version > 0
        assert await policy.answer(QUESTIONS * 2, "sampled", 5) != answers
        assert await guarding.after(report(dict(told)))
        assert policy.info.version == 0
        assert await policy.answer(QUESTIONS * 2, "sampled", 5) == answers
        assert not await guarding.after(report({}))
        rails.heard({})
        assert guarding.may_save

    with_policy(host, tmp_path, "roll_back", body)


def test_without_that_action_every_checkpoint_is_written_and_holds_the_baselines(
    host: Child, tmp_path: Path
) -> None:
    async def body(
        policy: RemotePolicy, keeper: PolicyKeeper, rails: Rails, guarding: Guarding
    ) -> None:
        rails.watch(await sampled(policy, random.Random(0)))
        for _ in range(3):
            rails.heard({"steps/skipped_nonfinite_gradient": 1.0})
        assert not await guarding.after(report({}))
        assert await guarding.save({"round": 1})
        assert keeper.newest is not None
        state = json.loads((keeper.newest.path / "state.json").read_bytes())
        again = Rails(GuardRails(), ASKED)
        # The status tells of a checkpoint that an earlier life wrote, too.
        later = PolicyKeeper(host, policy, keeper._order, keeper._checkpoints)
        await later.start()
        assert later.newest is not None
        assert (later.newest.path, later.newest.size) == (keeper.newest.path, keeper.newest.size)
        assert later.newest_version == keeper.newest_version
        Guarding(again, bounds(), keeper).restore(state["extra"])
        assert again.to_values() == rails.to_values()
        assert rails.to_values()["figures"]

    with_policy(host, tmp_path, "monitor", body)


def test_without_a_checkpoint_there_is_no_way_back_and_the_log_says_so(
    host: Child, tmp_path: Path
) -> None:
    async def body(
        policy: RemotePolicy, keeper: PolicyKeeper, rails: Rails, guarding: Guarding
    ) -> None:
        for _ in range(3):
            rails.heard({"steps/skipped_nonfinite_gradient": 1.0})
        with capture_logs() as logs:
            assert not await guarding.after(report({}))
        assert [each["event"] for each in logs] == ["there is no checkpoint to roll back to"]
        assert rails.wants_back

    with_policy(host, tmp_path, "roll_back", body)


@pytest.mark.parametrize("action", ["monitor", "roll_back"])
def test_an_alarm_is_told_once_and_again_when_it_becomes_critical(action: GuardAction) -> None:
    guarding = Guarding(Rails(GuardRails(action=action), ASKED), bounds(), None)  # type: ignore[arg-type]  # not asked
    figures = {"guard/recent/length": 20.0, "guard/start/length": 5.0}

    async def rounds() -> None:
        for verdict in (1.0, 1.0, 2.0, 2.0):
            await guarding.after(report({**figures, "guard/alarm/length": verdict}))
        await guarding.after(report(figures))
        await guarding.after(report({**figures, "guard/alarm/length": 1.0}))

    with capture_logs() as logs:
        asyncio.run(rounds())
    assert [(each["figure"], each["critical"], each["now"]) for each in logs] == [
        ("length", False, 20.0),
        ("length", True, 20.0),
        ("length", False, 20.0),
    ]


def test_a_fallback_is_told_of_when_it_begins_and_when_it_ends() -> None:
    guarding = Guarding(Rails(GuardRails(), ASKED), bounds(), None)  # type: ignore[arg-type]  # not asked
    fallen = {
        "fallback/drop": 0.0512,
        "fallback/deviations": 4.06,
        "fallback/evaluations_left": 4.0,
    }

    async def rounds() -> None:
        for active in (0.0, 1.0, 1.0, 0.0, 0.0):
            await guarding.after(report({**fallen, "fallback/active": active}))

    with capture_logs() as logs:
        asyncio.run(rounds())
    assert [each["event"] for each in logs] == [
        "fallback: own groups alone",
        "fallback ends: peers' groups are trained on again",
    ]
    assert (logs[0]["held_out_lost"], logs[0]["deviations"], logs[0]["evaluations"]) == (
        0.051,
        4.1,
        4,
    )


def test_a_fallback_goes_on_after_a_restart() -> None:
    fallen = bounds()
    for rate in ("1" * 80, "1" * 80, "0" * 80):
        fallen.trained([scored()])
        fallen.examined(Evaluation({"a": rate}, {"a": rate}))
    assert not fallen.trains
    again = bounds()
    Guarding(Rails(GuardRails(), ASKED), again, None).restore(  # type: ignore[arg-type]  # not asked
        json.loads(json.dumps({"external_bounds": fallen.to_values()}))
    )
    assert not again.trains
    assert again.trained([scored()]) == ()
