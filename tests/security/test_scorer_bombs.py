"""Hostile completions against the nine verifiers, alone and in the real scorer process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmnode.config.rewards import Rewards
from swarmnode.process import Child, WorkKilled
from swarmnode.rewards import verify
from swarmnode.rewards.client import Scorer, Verdict
from swarmnode.tasks import Catalogue
from tests.security.dangerous_scoring import DANGERS
from tests.security.scorer_support import (
    LEVELS,
    NINE,
    PUBLIC_KEY,
    SWARM_ID,
    group_of,
    hostile_texts,
    loop_lag,
    one_question,
    percentile_99,
    scorer_child,
    scorer_of,
)

LAG_SECONDS = 0.05
KILL_SECONDS = 1.25
RECOVERY_SECONDS = 0.5


@pytest.fixture(scope="module")
def dangerous() -> Iterator[Child]:
    """A scorer whose verifier does what completions tell it."""
    with scorer_child("tests.security.dangerous_scoring") as child:
        yield child


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("task", NINE)
def test_hostile_text_scores_0_in_a_verifier_at_once_and_without_a_trace(
    task: str, level: str, tmp_path: Path
) -> None:
    instances, _ = Catalogue(SWARM_ID).draw(PUBLIC_KEY, task, level, 0, 1)
    answer, metadata = instances[0].question.answer, instances[0].metadata
    slowest = 0.0
    for text in hostile_texts(tmp_path / "marker"):
        started = time.perf_counter()
        assert verify(task, answer, metadata, text) == 0.0, text[:60]
        slowest = max(slowest, time.perf_counter() - started)
    assert not list(tmp_path.iterdir())
    assert slowest < Rewards().group_seconds / 2


def test_hostile_text_scores_0_in_the_scorer_while_the_loop_stays_free(tmp_path: Path) -> None:
    texts = hostile_texts(tmp_path / "marker")

    async def attack(child: Child) -> list[float]:
        scorer = scorer_of(child)
        questions = [await one_question(scorer, task, level) for task in NINE for level in LEVELS]
        groups = [group_of(question, texts) for question in questions]
        honest = [group_of(question, [question.answer]) for question in questions]
        nothing = Verdict((0.0,) * len(texts))
        async with loop_lag() as lags:
            for _ in range(5):
                assert await scorer.score(groups) == [nothing] * len(groups)
                assert await scorer.score(honest) == [Verdict((1.0,))] * len(honest)
        return lags

    with scorer_child() as child:
        lags = asyncio.run(attack(child))
    assert not list(tmp_path.iterdir())
    assert len(lags) >= 50
    assert percentile_99(lags) <= LAG_SECONDS


@pytest.mark.parametrize("danger", DANGERS)
def test_a_verifier_taken_over_costs_its_own_group_alone(dangerous: Child, danger: str) -> None:
    async def attack() -> list[Verdict]:
        scorer = scorer_of(dangerous)
        questions, _ = await scorer.draw(PUBLIC_KEY, "bf", "easy", 0, 8)
        groups = [group_of(question, [question.answer, "wrong"]) for question in questions]
        groups[3] = group_of(questions[3], [questions[3].answer, danger])
        return await scorer.score(groups)

    verdicts = asyncio.run(attack())
    culprit = verdicts.pop(3)
    assert culprit.scores == (0.0, 0.0)
    assert culprit.rejection in ("scorer_killed", "unscorable")
    assert verdicts == [Verdict((1.0, 0.0))] * 7


def test_a_question_that_takes_too_long_without_its_text_is_not_held_against_the_text(
    dangerous: Child,
) -> None:
    async def verdicts() -> list[Verdict]:
        # So little time that nothing is scored in it, as on a machine that is overloaded.
        hurried = Rewards(request_seconds=1e-9, group_seconds=1e-9)
        question = await one_question(scorer_of(dangerous), "bf", "easy")
        honest = await Scorer(dangerous, hurried).score([group_of(question, [question.answer])])
        hostile = await scorer_of(dangerous).score([group_of(question, ["hang"])])
        return [*honest, *hostile]

    told = asyncio.run(verdicts())
    assert [each.rejection for each in told] == ["scorer_slow", "scorer_killed"]


@pytest.mark.parametrize("danger", ["hang", "hang in one instruction", "exit", "crash"])
def test_a_kill_takes_about_a_second_and_the_next_batch_follows_at_once(
    dangerous: Child, danger: str
) -> None:
    async def attack() -> list[float]:
        scorer = scorer_of(dangerous)
        question = await one_question(scorer, "bf", "easy")
        item = [PUBLIC_KEY, "bf", "easy", question.index, None, False, [[danger, "stop"]]]
        async with loop_lag() as lags:
            started = time.perf_counter()
            with pytest.raises(WorkKilled):
                await dangerous.call("score", [item], 60, Rewards().request_seconds)
            killed = time.perf_counter()
            verdicts = await scorer.score([group_of(question, [question.answer])] * 64)
            recovered = time.perf_counter()
        assert killed - started <= KILL_SECONDS
        assert recovered - killed <= RECOVERY_SECONDS
        assert verdicts == [Verdict((1.0,))] * 64
        return lags

    assert percentile_99(asyncio.run(attack())) <= LAG_SECONDS
