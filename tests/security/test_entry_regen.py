"""M3: nothing that a peer claims decides a score. Questions and answers are our own regeneration's,
which is the same in every process.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace

import pytest

from swarmnode.rewards import verify
from swarmnode.rewards.client import Verdict
from swarmnode.scoring import Scoring
from swarmnode.tasks import Catalogue, Instance, NoQuestion
from swarmnode.tasks.catalogue import REFERENCE_SWARM
from swarmnode.types import Completion
from tests.security.entry_digests import everything
from tests.security.scorer_support import (
    NINE,
    PUBLIC_KEY,
    SWARM_ID,
    group_of,
    scorer_child,
    scorer_of,
)

CATALOGUE = Catalogue(SWARM_ID)
SCORING = Scoring(CATALOGUE, Catalogue(REFERENCE_SWARM), verify)
ZERO = [0.0]


def test_questions_are_the_same_in_a_process_with_other_surroundings() -> None:
    surroundings = {"PYTHONHASHSEED": "4242", "TZ": "Pacific/Kiritimati", "LC_ALL": "C.UTF-8"}
    output = subprocess.run(
        [sys.executable, "-m", "tests.security.entry_digests"],
        env={**os.environ, **surroundings},
        capture_output=True,
        check=True,
        text=True,
        timeout=100,
    ).stdout
    assert json.loads(output) == everything()


def drawn(task: str = "bf") -> Instance:
    """The first question of PUBLIC_KEY's easy stream."""
    return CATALOGUE.draw(PUBLIC_KEY, task, "easy", 0, 1)[0][0]


def index_of(held_out: bool) -> int:
    """The first index of PUBLIC_KEY's bf stream whose question is, or is not, held out."""
    stream = (CATALOGUE.question(PUBLIC_KEY, "bf", "easy", index) for index in range(100))
    return next(each.question.index for each in stream if each.held_out == held_out)


@pytest.mark.parametrize("task", NINE)
def test_the_regenerated_answer_is_right_and_the_question_as_claimed_is_taken(task: str) -> None:
    question = drawn(task).question
    item = (PUBLIC_KEY, task, "easy", question.index, question.text, False)
    answers = [(question.answer, "stop"), (question.answer, "length"), ("?", "stop")]
    assert SCORING.score_group(*item, answers) == ([1.0, 0.0, 0.0], None)


@pytest.mark.parametrize("change", ["{} ", "{}\n", "2 + 2 = ?", "", "{}{}"])
def test_a_differing_question_is_rejected_however_slightly(change: str) -> None:
    question = drawn().question
    claimed = change.format(question.text, "\u200b")
    item = (PUBLIC_KEY, "bf", "easy", question.index, claimed, False)
    assert SCORING.score_group(*item, [(question.answer, "stop")]) == (ZERO, "question_differs")


def test_the_question_of_another_key_is_rejected() -> None:
    question = drawn().question
    item = (bytes(32), "bf", "easy", question.index, question.text, False)
    assert SCORING.score_group(*item, [(question.answer, "stop")]) == (ZERO, "question_differs")


@pytest.mark.parametrize(
    ("task", "level"),
    [
        ("nonsense", "easy"),
        ("bf", "nonsense"),
        ("", ""),
        ("countdown", "default"),
        ("bf", "default"),
    ],
)
def test_a_task_that_is_unknown_or_refused_is_rejected(task: str, level: str) -> None:
    outcome = SCORING.score_group(PUBLIC_KEY, task, level, 0, None, False, [("1", "stop")])
    assert outcome == (ZERO, "unknown_task")


def test_an_index_without_a_question_is_rejected_and_nothing_raises() -> None:
    def has_question(index: int) -> bool:
        try:
            CATALOGUE.question(PUBLIC_KEY, "propositional_logic", "paper", index)
        except NoQuestion:
            return False
        return True

    empty = next(index for index in range(2000) if not has_question(index))
    for claimed in ("What follows?", None):
        item = (PUBLIC_KEY, "propositional_logic", "paper", empty, claimed, False)
        assert SCORING.score_group(*item, [("P", "stop")]) == (ZERO, "question_differs")


def test_a_held_out_question_of_a_peer_is_rejected() -> None:
    answer = CATALOGUE.question(PUBLIC_KEY, "bf", "easy", index_of(True)).question.answer
    item = (PUBLIC_KEY, "bf", "easy", index_of(True), None, False)
    assert SCORING.score_group(*item, [(answer, "stop")]) == (ZERO, "held_out")


def test_an_evaluation_takes_held_out_questions_alone() -> None:
    evaluation = CATALOGUE.held_out("bf", "easy", 1)[0].question
    item = (PUBLIC_KEY, "bf", "easy", evaluation.index, evaluation.text, True)
    assert SCORING.score_group(*item, [(evaluation.answer, "stop")]) == ([1.0], None)
    others = set(range(evaluation.index + 20)) - {
        each.question.index for each in CATALOGUE.held_out("bf", "easy", 20)
    }
    for index in others:
        outcome = SCORING.score_group(PUBLIC_KEY, "bf", "easy", index, None, True, [("?", "stop")])
        assert outcome == (ZERO, "held_out")


def test_a_verifier_that_raises_costs_its_group_alone() -> None:
    def broken(task: str, answer: str, metadata: Mapping[str, object], completion: str) -> float:
        raise RecursionError

    scoring = replace(SCORING, verify=broken)
    item = (PUBLIC_KEY, "bf", "easy", index_of(False), None, False)
    assert scoring.score_group(*item, [("1", "stop")]) == (ZERO, "unscorable")


def test_the_process_gives_what_the_catalogue_gives_and_ignores_the_peers_answer() -> None:
    async def ask() -> None:
        with scorer_child() as child:
            scorer = scorer_of(child)
            questions, next_index = await scorer.draw(PUBLIC_KEY, "bf", "easy", 5, 3)
            instances, expected_index = CATALOGUE.draw(PUBLIC_KEY, "bf", "easy", 5, 3)
            assert questions == [instance.question for instance in instances]
            assert next_index == expected_index
            held_out = await scorer.held_out("bf", "easy", 2)
            assert held_out == [each.question for each in CATALOGUE.held_out("bf", "easy", 2)]
            pairs = await scorer.warm_start_pairs("bf", "easy", 1, 2)
            assert pairs == CATALOGUE.warm_start_pairs("bf", "easy", 1, 2)
            fingerprints = await scorer.fingerprints([("bf", "easy")])
            assert fingerprints == [CATALOGUE.fingerprint("bf", "easy")]

            liar = replace(questions[0], answer="lie")
            truncated = Completion(questions[0].answer, "length", 1)
            group = group_of(liar, ["lie", questions[0].answer])
            group = replace(group, completions=(*group.completions, truncated))
            assert await scorer.score([group]) == [Verdict((0.0, 1.0, 0.0))]
            unknown = group_of(replace(questions[0], task="nonsense"), ["lie"])
            assert await scorer.score([unknown]) == [Verdict((0.0,), "unknown_task")]
            answered = [group_of(question, [question.answer]) for question in held_out]
            verdicts = await scorer.score(answered, expect_held_out=True)
            assert verdicts == [Verdict((1.0,))] * 2

    asyncio.run(ask())
