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

from swarmnode.process import Child
from swarmnode.rewards.client import Verdict
from swarmnode.tasks import DEFAULT, ENABLED
from swarmnode.types import Question
from tests.security.reward_corpus import NONSENSE
from tests.security.scorer_support import (
    LEVELS,
    NINE,
    PUBLIC_KEY,
    group_of,
    hostile_texts,
    scorer_child,
    scorer_of,
)

ALL = [*((task, level) for task in NINE for level in LEVELS), *((t, DEFAULT) for t in ENABLED)]
TEXTS_PER_GROUP = 16
MANY = 20
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


async def sweep(child: Child, questions: Sequence[Question], marker: Path) -> None:
    """No text is paid or rejects its group, and an honest answer is paid afterwards."""
    scorer = scorer_of(child)
    for question in questions:
        texts = [text for text in texts_against(question.answer, marker) if _encodable(text)]
        groups = [group_of(question, some) for some in in_groups(texts)]
        judged = await scorer.score_external(groups)
        nothing = [Verdict((0.0,) * len(group.completions)) for group in groups]
        assert judged.verdicts == nothing, question
        judged = await scorer.score_external([group_of(question, [question.answer])])
        assert judged.verdicts == [Verdict((1.0,))]


def _encodable(text: str) -> bool:
    """Whether a text can travel, in a frame between processes as on the wire."""
    try:
        return bool(text.encode()) or not text
    except UnicodeEncodeError:
        return False


async def asked(child: Child, task: str, level: str, count: int) -> list[Question]:
    questions, _ = await scorer_of(child).draw(PUBLIC_KEY, task, level, 0, count)
    return questions


def test_hostile_answers_do_nothing_to_any_task_that_can_be_enabled(
    child: Child, tmp_path: Path
) -> None:
    async def attack() -> None:
        for task, level in ALL:
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
