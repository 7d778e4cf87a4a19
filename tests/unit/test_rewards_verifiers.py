"""Each verifier's own rules, and that no nonsense scores with any of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarmnode.logic import JOINT_LITERALS
from swarmnode.rewards import VERIFIERS, verify
from swarmnode.rewards.other_tasks import OTHER_VERIFIERS
from swarmnode.rewards.same_answer import Metadata
from tests.security.reward_corpus import NONSENSE
from tests.unit.rewards_entries import TASKS, entries, our_score

JOINT: Metadata = {
    "rule": JOINT_LITERALS,
    "premises": ["P", "S", "P → Q", "(R ∨ ¬S)", "T → S"],
    "variables": ["P", "Q", "R", "S", "T"],
}


@pytest.mark.parametrize("task", TASKS)
def test_no_nonsense_scores_half_a_mark(task: str) -> None:
    for entry in entries(task, 40):
        for text in NONSENSE:
            assert our_score(task, entry, text) < 0.5, f"{text[:40]!r} to {entry['answer']!r}"


def test_no_nonsense_answers_a_joint_conclusion() -> None:
    assert not any(verify("propositional_logic", "Q ∧ R", JOINT, text) for text in NONSENSE)


@pytest.mark.parametrize("task", TASKS)
def test_the_reference_answer_scores_fully_bare_and_in_tags(task: str) -> None:
    for entry in entries(task, 40):
        if task == "propositional_logic" and len(entry["answer"]) == 1:
            continue  # reasoning-gym's fallback example, which no verifier takes
        answer = entry["answer"]
        assert our_score(task, entry, answer) == 1.0
        assert our_score(task, entry, f"I find <answer>\n{answer} </answer>.") == 1.0


ANY_TEXT = st.text(max_size=300) | st.text("0123456789+-./eE_[], \\frac{}$PQR()¬∧∨→↔", max_size=80)


@pytest.mark.parametrize("task", TASKS)
@settings(max_examples=150, deadline=None)
@given(text=ANY_TEXT)
def test_any_text_gets_a_finite_score_between_0_and_1(task: str, text: str) -> None:
    entry = entries(task, 1)[0]
    score = our_score(task, entry, text)
    assert math.isfinite(score)
    assert 0.0 <= score <= 1.0


@pytest.mark.parametrize(
    ("conclusion", "score"),
    [
        ("Q ∧ R", 1.0),
        ("(R ∧ Q)", 1.0),
        ("<answer>(Q) ∧ R</answer>", 1.0),
        ("P ∧ S", 0.0),  # two premises glued together
        ("Q ∧ S", 0.0),  # one of them a premise
        ("Q ∧ Q", 0.0),  # one letter twice
        ("Q", 0.0),  # half of it
        ("Q ∨ R", 0.0),  # weakened
        ("Q ∧ ¬R", 0.0),  # contradicts the premises
        ("Q ∧ ¬¬R", 0.0),  # no literal
        ("Q ∧ T", 0.0),  # does not follow
        ("Q ∧ R ∧ P", 0.0),  # a premise besides
        ("Q ∧ U", 0.0),  # a variable of its own
        ("Q R", 0.0),
    ],
)
def test_a_joint_conclusion_is_all_the_literals_that_need_two_premises(
    conclusion: str, score: float
) -> None:
    assert verify("propositional_logic", "Q ∧ R", JOINT, conclusion) == score


@pytest.mark.parametrize(
    ("answer", "tolerance", "given_answer", "score"),
    [
        ("1.5", "0", "1.5", 1.0),
        ("1.5", "0", "1.50", 1.0),
        ("1.5", "0", "1.501", 0.0),
        ("1.5", "0.001", "1.501", 1.0),
        ("1.5", "0.001", "1.5011", 0.0),
        ("1.2346E+5", "0.001", "123460", 1.0),
        ("-0.25", "0.001", "-.25", 1.0),
        ("2", "0", "2.", 1.0),
        ("2", "0", "2,0", 0.0),
    ],
)
def test_a_decimal_is_right_within_its_tolerance(
    answer: str, tolerance: str, given_answer: str, score: float
) -> None:
    metadata = {"tolerance": tolerance}
    assert verify("decimal_arithmetic", answer, metadata, given_answer) == score


def test_the_nine_tasks_have_a_verifier_here_and_no_other_task_has() -> None:
    assert set(VERIFIERS) == set(TASKS)
    assert not set(OTHER_VERIFIERS) & set(TASKS)
