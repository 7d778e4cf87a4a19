"""Code in any field that reaches the scorer leaves no trace (requirement M1).

Each text of the corpus makes a file where something evaluates it; the last tests show that it does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from swarmnode.process import Child
from swarmnode.rewards import sandbox, verify
from swarmnode.rewards.client import Verdict
from swarmnode.scoring import Verify
from swarmnode.tasks import Catalogue
from swarmnode.tasks.other_tasks import REFUSED
from swarmnode.types import Group, PolicyInfo, Question
from swarmnode.wire import group_record, policy_label, received_group
from swarmproto import (
    BundleHeader,
    CompletionRecord,
    GroupRecord,
    WireError,
    decode_group,
    encode_group,
)
from tests.security.scorer_support import (
    LEVELS,
    NINE,
    PUBLIC_KEY,
    SWARM_ID,
    code_texts,
    group_of,
    hostile_texts,
    one_question,
    scorer_child,
    scorer_of,
)

HEADER = BundleHeader(
    SWARM_ID, PUBLIC_KEY, 1, 1, policy_label(PolicyInfo("tiny", 0, bytes(32))), (bytes(32),)
)
NUMBERS = (0, 1, 2**31, 2**32 - 1)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    """The real scorer process."""
    with scorer_child() as child:
        yield child


def check(verify: Verify, task: str, level: str, folder: Path) -> None:
    """Every hostile text scores 0 and leaves nothing in `folder`."""
    instances, _ = Catalogue(SWARM_ID).draw(PUBLIC_KEY, task, level, 0, 1)
    answer, metadata = instances[0].question.answer, instances[0].metadata
    for text in hostile_texts(folder / "marker"):
        assert verify(task, answer, metadata, text) == 0.0, text[:60]
        assert not os.listdir(folder), text[:60]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("task", NINE)
def test_hostile_text_scores_0_in_a_verifier_without_a_trace(
    task: str, level: str, tmp_path: Path
) -> None:
    check(verify, task, level, tmp_path)


def test_code_in_any_field_of_the_wire_leaves_no_trace(child: Child, tmp_path: Path) -> None:
    async def attack() -> None:
        scorer = scorer_of(child)
        for task in NINE:
            question = await one_question(scorer, task, "easy")
            honest = group_record(group_of(question, [question.answer, "wrong"]), bytes(32))
            reached = dict(hostile_groups(honest, code_texts(tmp_path / "marker")))
            assert {name for name, _ in reached} == TRIED
            judged = await scorer.score_external(list(reached.values()))
            assert len(judged.verdicts) == len(reached)
            for (name, _), verdict in zip(reached, judged.verdicts, strict=True):
                assert name in CHANGES_NO_SCORE or sum(verdict.scores) in (0.0, 1.0)
                assert verdict.rejection in (None, "unknown_task", "question_differs", "held_out")

    asyncio.run(attack())
    assert not os.listdir(tmp_path)


CHANGES_NO_SCORE = {"answer", "fingerprint", "token_count", "total_logprob"}
"""Fields that the scorer isn't even told of."""

TRIED = {"task", "level", "index", "question", "text", "finish_reason", *CHANGES_NO_SCORE}
"""All fields of a group but `completions`, which these are in, and log-probs by token, which are
numbers before anything else sees them."""


def hostile_groups(
    honest: GroupRecord, texts: Sequence[str]
) -> Iterator[tuple[tuple[str, int], Group]]:
    """Groups of which one field is hostile, by its name, as far as the wire carries them."""
    for field in fields(GroupRecord):
        for place, value in enumerate(hostile_values(getattr(honest, field.name), texts)):
            yield from carried(field.name, place, replace(honest, **{field.name: value}))
    first, *others = honest.completions
    for field in fields(CompletionRecord):
        for place, value in enumerate(hostile_values(getattr(first, field.name), texts)):
            completions = (replace(first, **{field.name: value}), *others)
            yield from carried(field.name, place, replace(honest, completions=completions))


def hostile_values(value: object, texts: Sequence[str]) -> Sequence[Any]:
    """What a stranger might put in place of `value`."""
    if isinstance(value, str):
        return texts
    if isinstance(value, bytes) or value is None:
        return [text.encode()[:32].ljust(32, b"'") for text in texts]
    return NUMBERS if isinstance(value, int) else ()


def carried(name: str, place: int, record: GroupRecord) -> Iterator[tuple[tuple[str, int], Group]]:
    """The group as it is received; what the wire refuses, as if it did not."""
    with contextlib.suppress(WireError):
        record = decode_group(encode_group(record))
    with contextlib.suppress(WireError):
        yield (name, place), received_group(record, HEADER)


def test_a_dataset_that_a_peer_chose_is_refused_before_anything_of_it_is_made(
    child: Child, tmp_path: Path
) -> None:
    texts = code_texts(tmp_path / "marker")
    evaluated = [
        group_of(Question(task, "default", 0, text, text), texts)
        for task in REFUSED
        for text in texts
    ]
    judged = asyncio.run(scorer_of(child).score_external(evaluated))
    nothing = Verdict((0.0,) * len(texts), "unknown_task")
    assert judged.verdicts == [nothing] * len(evaluated)
    assert not os.listdir(tmp_path)


@pytest.mark.skipif(not sandbox.filtered(), reason="this machine has no system call filter")
def test_behind_the_lock_even_a_verifier_that_evaluates_leaves_no_trace(tmp_path: Path) -> None:
    async def attack(child: Child) -> None:
        scorer = scorer_of(child)
        question = await one_question(scorer, "bf", "easy")
        texts = code_texts(tmp_path / "marker")
        judged = await scorer.score_external([group_of(question, texts)])
        assert judged.verdicts == [Verdict((0.0,) * len(texts))]

    with scorer_child("tests.security.faulty_scoring") as child:
        asyncio.run(attack(child))
    assert not os.listdir(tmp_path)


@pytest.mark.filterwarnings("ignore")  # of the file that the text leaves open
def test_the_check_finds_a_verifier_that_evaluates(tmp_path: Path) -> None:
    from tests.security.faulty_scoring import evaluating_verify

    with pytest.raises(AssertionError, match="open"):
        check(evaluating_verify, "binary_matrix", "easy", tmp_path)
    assert os.listdir(tmp_path) == ["marker"]
