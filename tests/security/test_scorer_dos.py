"""Texts that hang, crash or eat memory cost little and their own group alone (requirement M2)."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from swarmnode.config.rewards import Rewards
from swarmnode.process import Child, WorkKilled
from swarmnode.rewards import verify
from swarmnode.rewards.client import Judged, Scorer, Verdict
from swarmnode.scoring import Verify
from swarmnode.tasks import Catalogue
from tests.security.dangerous_scoring import CORRUPT, DANGERS, LIES
from tests.security.faulty_scoring import quadratic_verify
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


def check(verify: Verify, task: str, level: str) -> None:
    """No hostile text takes a tenth of the CPU time that ends the worker."""
    instances, _ = Catalogue(SWARM_ID).draw(PUBLIC_KEY, task, level, 0, 1)
    answer, metadata = instances[0].question.answer, instances[0].metadata
    for text in hostile_texts(Path("/nowhere/marker")):
        started = time.process_time()
        verify(task, answer, metadata, text)
        assert time.process_time() - started < Rewards().completion_cpu_seconds / 10, text[:60]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("task", NINE)
def test_no_hostile_text_takes_long_in_a_verifier(task: str, level: str) -> None:
    check(verify, task, level)


def test_the_check_finds_an_extraction_that_is_quadratic() -> None:
    with pytest.raises(AssertionError, match="<answer><answer>"):
        check(quadratic_verify, "bf", "easy")


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
                judged = await scorer.score_external(groups)
                assert judged.verdicts == [nothing] * len(groups)
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
        return list((await scorer.score_external(groups)).verdicts)

    verdicts = asyncio.run(attack())
    culprit = verdicts.pop(3)
    assert culprit.scores == (0.0, 0.0)
    assert culprit.rejection == ("unscorable" if danger in RAISES else "scorer_killed")
    assert verdicts == [Verdict((1.0, 0.0))] * 7


def test_a_worker_that_was_taken_over_falsifies_nobody_elses_verdicts(dangerous: Child) -> None:
    async def attack() -> list[Verdict]:
        scorer = scorer_of(dangerous)
        question = await one_question(scorer, "bf", "easy")
        hostile = group_of(question, [CORRUPT, "wrong"])
        honest = group_of(question, [question.answer, "wrong"])
        verdicts: list[Verdict] = []
        verdicts += (await scorer.score_external([hostile])).verdicts
        verdicts += (await scorer.score_external([honest])).verdicts
        verdicts += await scorer.score([honest])
        return verdicts

    # Its own author's are what it says, which the caps on shares are there for.
    mine, *others = asyncio.run(attack())
    assert mine == Verdict((1.0, 1.0))
    assert others == [Verdict((1.0, 0.0))] * 2


RAISES = ("recurse", "raise")
"""What a worker survives by itself."""


@pytest.mark.parametrize("lie", LIES)
def test_what_is_no_score_is_believed_of_nobody(dangerous: Child, lie: str) -> None:
    async def attack() -> list[Verdict]:
        scorer = scorer_of(dangerous)
        questions, _ = await scorer.draw(PUBLIC_KEY, "bf", "easy", 0, 2)
        liar = group_of(questions[0], [questions[0].answer, lie])
        honest = group_of(questions[1], [questions[1].answer], publisher=bytes(32))
        return list((await scorer.score_external([liar, honest])).verdicts)

    verdicts = asyncio.run(attack())
    # Another author's question is not ours: what matters is that a worker of its own said so.
    assert verdicts == [Verdict((0.0, 0.0), "scorer_killed"), Verdict((0.0,), "question_differs")]


def test_several_culprits_among_the_groups_of_one_author_are_each_found(dangerous: Child) -> None:
    culprits = {0: "hang", 2: "exit", 3: "hang", 7: "sleep for an hour"}

    async def attack() -> Judged:
        scorer = scorer_of(dangerous)
        questions, _ = await scorer.draw(PUBLIC_KEY, "bf", "easy", 0, 8)
        groups = [
            group_of(question, [question.answer, culprits.get(place, "wrong")])
            for place, question in enumerate(questions)
        ]
        return await scorer.score_external(groups)

    judged = asyncio.run(attack())
    assert [each.rejection for each in judged.verdicts] == [
        "scorer_killed" if place in culprits else None for place in range(8)
    ]
    assert 0.0 < judged.seconds < 10.0


def test_groups_for_which_no_seconds_are_left_are_not_asked_for(dangerous: Child) -> None:
    async def attack(seconds: float) -> Judged:
        scorer = scorer_of(dangerous)
        questions, _ = await scorer.draw(PUBLIC_KEY, "bf", "easy", 0, 4)
        groups = [group_of(question, ["sleep for an hour"]) for question in questions]
        return await scorer.score_external(groups, seconds)

    # One request may take what is left and more; then the culprit is sought, and that is all.
    judged = asyncio.run(attack(0.5))
    assert [each.rejection for each in judged.verdicts] == ["scorer_killed", *["scorer_budget"] * 3]
    assert 0.5 < judged.seconds < 3.0
    judged = asyncio.run(attack(0.0))
    assert [each.rejection for each in judged.verdicts] == ["scorer_budget"] * 4
    assert judged.seconds == 0.0


def cpu_of_the_dead(child: Child) -> float:
    """CPU seconds of the workers that a zygote has buried (Linux)."""
    with open(f"/proc/{child.process_id}/stat") as status:
        fields = status.read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[13:15])) / os.sysconf("SC_CLK_TCK")


def check_cost(child: Child) -> None:
    """A group with a completion that never ends costs its 50 ms, and two workers' beginnings."""

    async def attack() -> list[Verdict]:
        scorer = scorer_of(child)
        question = await one_question(scorer, "bf", "easy")
        group = group_of(question, [question.answer, "hang", "hang", "hang"])
        return list((await scorer.score_external([group])).verdicts)

    before = cpu_of_the_dead(child)
    assert asyncio.run(attack()) == [Verdict((0.0,) * 4, "scorer_killed")]
    assert cpu_of_the_dead(child) - before < 0.15


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux what was spent")
def test_a_completion_that_never_ends_costs_50_ms_of_cpu_time(dangerous: Child) -> None:
    for _ in range(5):
        check_cost(dangerous)
    with (
        scorer_child("tests.security.dangerous_scoring", cpu_seconds=60.0) as unlimited,
        pytest.raises(AssertionError),
    ):
        check_cost(unlimited)


def test_a_text_that_takes_an_extraction_long_costs_its_group(tmp_path: Path) -> None:
    async def attack(child: Child) -> list[Verdict]:
        scorer = scorer_of(child)
        questions, _ = await scorer.draw(PUBLIC_KEY, "bf", "easy", 0, 2)
        hostile = group_of(questions[0], [questions[0].answer, "<answer>" * 2000])
        honest = group_of(questions[1], [questions[1].answer])
        return list((await scorer.score_external([hostile, honest])).verdicts)

    with scorer_child("tests.security.faulty_scoring") as child:
        verdicts = asyncio.run(attack(child))
    assert verdicts == [Verdict((0.0, 0.0), "scorer_killed"), Verdict((1.0,))]


def test_a_question_that_takes_too_long_with_right_answers_too_is_not_held_against_the_text(
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


@pytest.mark.parametrize(
    ("danger", "cause"),
    [
        ("hang", "cpu"),
        ("hang in one instruction", "cpu"),
        ("sleep for an hour", "time"),
        ("lift the limit and hang", "time"),
        ("exit", "died"),
        ("crash", "died"),
        ("allocate", "died or cpu"),  # whichever runs out first
    ],
)
def test_a_kill_takes_about_a_second_at_most_and_the_next_batch_follows_at_once(
    dangerous: Child, danger: str, cause: str
) -> None:
    async def attack() -> list[float]:
        scorer = scorer_of(dangerous)
        question = await one_question(scorer, "bf", "easy")
        item = [PUBLIC_KEY, "bf", "easy", question.index, None, False, [[danger, "stop"]]]
        async with loop_lag() as lags:
            started = time.perf_counter()
            with pytest.raises(WorkKilled) as ended:
                await dangerous.work("score", [item], 60, Rewards().request_seconds, apart=True)
            killed = time.perf_counter()
            honest = [group_of(question, [question.answer])] * 64
            verdicts = (await scorer.score_external(honest)).verdicts
            recovered = time.perf_counter()
        assert ended.value.cause in cause.split(" or ")
        assert killed - started <= KILL_SECONDS
        assert recovered - killed <= RECOVERY_SECONDS
        assert verdicts == [Verdict((1.0,))] * 64
        return lags

    assert percentile_99(asyncio.run(attack())) <= LAG_SECONDS
