"""Hostile answers against every task that can be enabled, in the real, locked scorer process.

A short form of one question a level runs always, `-m real` asks many; nothing hangs, ends the
worker, leaves a trace or is paid. That the texts do harm elsewhere is shown by reasoning-gym's
own scorers, which the last test lets evaluate them.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from swarmnode.config.rewards import Rewards
from swarmnode.process import Child
from swarmnode.rewards.client import Scorer, Verdict
from swarmnode.rewards.extraction import extract_answer
from swarmnode.tasks import DEFAULT, ENABLED, Catalogue, Instance
from tests.security.reward_corpus import NONSENSE
from tests.security.reward_truth import is_right
from tests.security.scorer_support import (
    LEVELS,
    NINE,
    PUBLIC_KEY,
    SWARM_ID,
    group_of,
    hostile_texts,
    scorer_child,
    scorer_of,
)

OTHERS = [(task, DEFAULT) for task in sorted(ENABLED)]
ALL = [*((task, level) for task in NINE for level in LEVELS), *OTHERS]
PARTS = 4
TEXTS_PER_GROUP = 16
MANY = 20
PATIENT = Rewards(request_seconds=30.0, group_seconds=10.0)
"""On a machine that is busy with other tests; what a text may compute is limited all the same."""
EVALUATE = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion", "simple_integration")


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    """A scorer that is ready for every task."""
    with scorer_child(levels=[f"{task}:{DEFAULT}" for task in sorted(ENABLED)]) as child:
        yield child


def shaped(answer: str, code: str) -> Iterator[str]:
    """Code where a part of the right answer stands."""
    first = next((one for one in answer if one.isalnum()), "")
    yield from (answer.replace(first, code), answer.replace(first, code, 1), f"{code}, {answer}")
    yield from (f"[{code}]", f'["{code}"]', f"[[{code}, 1], [1, 1]]", f"({code}, {code})")
    yield from (f"{answer}\n{code}", f"A={code}", f"{code}/1", f"Move disk {code} from Peg 1 to 2")


def texts_against(answer: str, marker: Path) -> list[str]:
    hostile = hostile_texts(marker)
    return [*hostile, *NONSENSE, *(text for code in hostile[:3] for text in shaped(answer, code))]


def in_groups(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), TEXTS_PER_GROUP):
        yield texts[start : start + TEXTS_PER_GROUP]


async def sweep(child: Child, instances: Sequence[Instance], marker: Path) -> None:
    """No text rejects its group, none is paid unless right, and an honest answer follows them."""
    scorer = Scorer(child, PATIENT)
    for instance in instances:
        question = instance.question
        texts = [text for text in texts_against(question.answer, marker) if _encodable(text)]
        judged = await scorer.score_external(
            [group_of(question, some) for some in in_groups(texts)]
        )
        assert [verdict.rejection for verdict in judged.verdicts] == [None] * len(judged.verdicts)
        scores = [score for verdict in judged.verdicts for score in verdict.scores]
        paid = [text for text, score in zip(texts, scores, strict=True) if score > 0.0]
        # Some are right by chance: 1e-99 where the answer is 0.
        assert all(is_right(instance, extract_answer(text, 1 << 12) or "") for text in paid)
        assert len(paid) < 10
        judged = await scorer.score_external([group_of(question, [question.answer])])
        assert judged.verdicts == [Verdict((1.0,))]


def _encodable(text: str) -> bool:
    """Whether a text can travel, in a frame between processes as on the wire."""
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False


async def asked(child: Child, task: str, level: str, count: int) -> list[Instance]:
    """Questions of the locked process, which are those of any other."""
    questions, _ = await scorer_of(child).draw(PUBLIC_KEY, task, level, 0, count)
    instances, _ = Catalogue(SWARM_ID).draw(PUBLIC_KEY, task, level, 0, count)
    assert questions == [instance.question for instance in instances]
    return instances


@pytest.mark.parametrize("part", range(PARTS))
def test_hostile_answers_do_nothing_to_any_task_that_can_be_enabled(
    child: Child, tmp_path: Path, part: int
) -> None:
    async def attack() -> None:
        for task, level in ALL[part::PARTS]:
            await sweep(child, await asked(child, task, level, 1), tmp_path / "marker")

    asyncio.run(attack())
    assert not list(tmp_path.iterdir())


@pytest.mark.real
@pytest.mark.parametrize(("task", "level"), ALL)
def test_hostile_answers_do_nothing_to_any_task_over_many_questions(
    child: Child, tmp_path: Path, task: str, level: str
) -> None:
    async def attack() -> None:
        await sweep(child, await asked(child, task, level, MANY), tmp_path / "marker")

    asyncio.run(attack())
    assert not list(tmp_path.iterdir())


EVALUATED_ELSEWHERE = """
import contextlib, sys
from pathlib import Path
import reasoning_gym
from tests.security.test_sweep_answers import texts_against
dataset = reasoning_gym.create_dataset(sys.argv[1], seed=1, size=1)
entry = dataset[0]
code = [text for text in texts_against("1", Path(sys.argv[2])) if "touch" in text or "open" in text]
for text in code:
    with contextlib.suppress(BaseException):
        dataset.score_answer(text, entry)
"""


@pytest.mark.real
@pytest.mark.parametrize("task", EVALUATE)
def test_the_texts_leave_their_mark_where_reasoning_gym_evaluates_them(
    task: str, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    subprocess.run(
        [sys.executable, "-c", EVALUATED_ELSEWHERE, task, str(marker)], check=True, timeout=100
    )
    assert marker.exists()
