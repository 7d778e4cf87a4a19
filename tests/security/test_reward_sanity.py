"""M8: no answer but a right one is paid, at any level of any task that can be enabled.

What is right is decided by `reward_truth`, which shares no code with the verifiers. Every text goes
the whole way from the completion, so that the extraction of the answer is attacked as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmnode.rewards import verify
from swarmnode.rewards.extraction import extract_answer
from swarmnode.rewards.other_tasks import OTHER_VERIFIERS
from swarmnode.tasks import DEFAULT, ENABLED, LEVELS, Catalogue, Instance
from tests.security.reward_corpus import (
    NONSENSE,
    disguises,
    many_in_one,
    near_misses,
    restatements,
)
from tests.security.reward_truth import is_right, upstream_score
from tests.security.scorer_support import PUBLIC_KEY, SWARM_ID

NINE = [(task, level) for task in LEVELS for level in LEVELS[task]]
ALL = [*NINE, *((task, DEFAULT) for task in sorted(ENABLED))]
FEW, MANY = 3, 60
CATALOGUE = Catalogue(SWARM_ID)


@lru_cache(2 * len(ALL))
def drawn(task: str, level: str, count: int) -> tuple[Instance, ...]:
    """The first questions of PUBLIC_KEY's stream."""
    return tuple(CATALOGUE.draw(PUBLIC_KEY, task, level, 0, count)[0])


@lru_cache(1)
def answers_of_all() -> tuple[str, ...]:
    """A right answer of every level."""
    return tuple(drawn(task, level, FEW)[0].question.answer for task, level in ALL)


def paid(instance: Instance, completion: str) -> float:
    """The score, which is one of the two or three that a verifier knows."""
    question = instance.question
    score = verify(question.task, question.answer, instance.metadata, completion)
    assert score in ((0.0, 0.1, 1.0) if question.task == "binary_matrix" else (0.0, 1.0))
    return score


def assert_paid_only_if_right(instance: Instance, completion: str) -> None:
    answer = extract_answer(completion, 1 << 14) or ""
    score, question = paid(instance, completion), instance.question
    if score >= 0.5:
        shown = f"{question.task}:{question.level} pays {completion[:200]!r}"
        assert is_right(instance, answer), f"{shown}, right is {question.answer[:200]!r}"
    elif score > 0.0:
        assert "".join(answer.split()).strip("[]").replace("],[", ",").replace(",", "") == "".join(
            question.answer.split()
        )


def attack(task: str, level: str, count: int) -> None:
    for instance in drawn(task, level, count):
        question = instance.question
        others = [one for one in answers_of_all() if one != question.answer]
        bare = (*NONSENSE, *answers_of_all(), *restatements(question.text))
        made = (*disguises(question.answer), *near_misses(question.answer))
        for text in (*bare, *made, *many_in_one(question.answer, others)):
            assert_paid_only_if_right(instance, text)
        for text in made:
            assert_paid_only_if_right(instance, f"I think <answer>{text}</answer> is right")


@pytest.mark.parametrize(("task", "level"), ALL)
def test_nothing_but_a_right_answer_is_paid(task: str, level: str) -> None:
    attack(task, level, FEW)


@pytest.mark.real
@pytest.mark.parametrize(("task", "level"), ALL)
def test_nothing_but_a_right_answer_is_paid_over_many_questions(task: str, level: str) -> None:
    attack(task, level, MANY)


@pytest.mark.parametrize(("task", "level"), ALL)
def test_the_reference_answer_is_paid_bare_in_tags_and_after_others(task: str, level: str) -> None:
    for instance in drawn(task, level, FEW):
        answer = instance.question.answer
        for completion in (
            answer,
            f"  {answer}\n",
            f"I find <answer>\n{answer} </answer>.",
            f"<answer>0</answer><answer>{answer}</answer>",
        ):
            assert paid(instance, completion) == 1.0


@pytest.mark.parametrize(("task", "level"), ALL)
def test_of_many_answers_the_last_one_alone_counts(task: str, level: str) -> None:
    for instance in drawn(task, level, FEW):
        right = f"<answer>{instance.question.answer}</answer>"
        for wrong in ("", " ", "?", "<answer>", f"{instance.question.answer} ?"):
            assert paid(instance, f"{right}{right}<answer>{wrong}</answer>") == 0.0


PROPERTIES = [(task, DEFAULT) for task in (*OTHER_VERIFIERS, "ab", "dice", "gcd", "rotate_matrix")]
"""Levels of every verifier: those with one of their own, and kinds of answers that are compared."""
SIGNS = "0123456789+-./eE_[](){}, \n\t×=°:;\"'>$\\PQR¬∧∨→↔abckAB\u212a\u0661\uff11\u200b\u2003"


@st.composite
def answers_around(draw: st.DrawFn, answer: str) -> str:
    """Texts made of pieces of the right answer and whatever stands beside such answers."""
    start = draw(st.integers(0, max(0, len(answer) - 1)))
    end = draw(st.integers(start, len(answer)))
    piece = st.sampled_from((answer, answer[:start], answer[start:end], answer[end:], "<answer>"))
    return "".join(draw(st.lists(piece | st.text(SIGNS, max_size=3) | st.text(max_size=2))))


@pytest.mark.parametrize(("task", "level"), [*NINE, *PROPERTIES])
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_whatever_is_made_of_a_right_answer_is_paid_only_if_right(
    task: str, level: str, data: st.DataObject
) -> None:
    instance = data.draw(st.sampled_from(drawn(task, level, FEW)))
    text = data.draw(answers_around(instance.question.answer) | st.text(max_size=300))
    assert_paid_only_if_right(instance, text)
    assert math.isfinite(paid(instance, text))


UNDESERVED: Sequence[tuple[str, Callable[[str], str]]] = (
    ("game_of_life", lambda answer: answer.replace("1", "0").replace("0", "1", 1)),
    ("game_of_life", lambda answer: answer.replace("]]", "],[1,1]]")),
    ("knights_knaves", lambda answer: answer.split(",")[0] + ", and nobody is a knight"),
    ("knights_knaves", lambda answer: answer.removesuffix(".") + " knave knight."),
    ("cryptarithm", lambda answer: f"{answer[0]}=0,{answer}"),
    ("polynomial_equations", lambda answer: f"{answer}, unless it is wrong"),
    ("number_format", lambda answer: str(float(answer) + 0.005)),
    ("rectangle_count", lambda answer: str(int(answer) + 1)),
    ("prime_factorization", lambda answer: str(math.prod(map(int, answer.split(" × "))))),
    ("tower_of_hanoi", lambda answer: answer.replace("1", "１")),
    ("survo", lambda answer: answer.replace(" ", " x ", 1)),
    ("sudoku", lambda answer: answer[:-3] + answer[-1:] + answer[-2::-1][:2]),
    ("chain_sum", lambda answer: f"{answer[:-1]}_{answer[-1]}"),
    ("modulo_grid", lambda answer: f"{answer} or not"),
    ("syllogism", lambda answer: f"{answer}!"),
    ("aiw", lambda answer: f"{answer}?"),
)
"""Answers that reasoning-gym's scorers pay with half a mark or more."""


@pytest.mark.parametrize(("task", "spoilt"), UNDESERVED, ids=lambda value: str(value)[:20])
def test_what_reasoning_gyms_own_scorer_would_pay_undeservedly_earns_nothing(
    task: str, spoilt: Callable[[str], str]
) -> None:
    """Also shows that the attacks above would be seen: put its scorer back, and they are."""
    tried = [(one, spoilt(one.question.answer)) for one in drawn(task, DEFAULT, 2 * FEW)]
    undeserved = [(one, text) for one, text in tried if not is_right(one, text)]
    assert max(upstream_score(one, text) for one, text in undeserved) >= 0.5
    assert all(paid(one, text) == 0.0 for one, text in undeserved)


def test_every_other_task_with_a_verifier_of_its_own_can_be_enabled() -> None:
    assert set(OTHER_VERIFIERS) <= ENABLED
