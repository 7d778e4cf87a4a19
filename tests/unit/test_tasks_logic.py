"""Formulas, truth tables, and what counts as a conclusion."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.logic import (
    ANY_CONCLUSION,
    JOINT_LITERALS,
    MAX_FORMULA_LENGTH,
    FormulaError,
    is_right_conclusion,
    joint_literals,
    literals,
    parse,
    truth_table,
)
from swarmnode.tasks import EASY, Catalogue

LETTERS = "PQR"


def _bracketed(parts: tuple[str, str, str]) -> str:
    left, operator, right = parts
    return f"({left} {operator} {right})"


formulas = st.recursive(
    st.sampled_from(LETTERS),
    lambda inner: (
        inner.map("¬{}".format) | st.tuples(inner, st.sampled_from("∧∨→↔"), inner).map(_bracketed)
    ),
    max_leaves=8,
)


def _naive_table(text: str) -> int:
    """Evaluate row by row and outside in, on fully bracketed text."""

    def holds(part: str, row: dict[str, bool]) -> bool:
        if part[0] == "¬":
            return not holds(part[1:], row)
        if part[0] != "(":
            return row[part]
        depth = 0
        for place, character in enumerate(part):
            depth += (character == "(") - (character == ")")
            if depth == 1 and character in "∧∨→↔":
                left, right = holds(part[1 : place - 1], row), holds(part[place + 2 : -1], row)
                return {
                    "∧": left and right,
                    "∨": left or right,
                    "→": not left or right,
                    "↔": left == right,
                }[character]
        raise AssertionError(part)

    rows = [
        dict(zip(LETTERS, reversed(bits), strict=True)) for bits in product((False, True), repeat=3)
    ]
    return sum(holds(text, row) << place for place, row in enumerate(rows))


@given(formulas)
def test_truth_tables_are_those_of_a_row_by_row_evaluation(text: str) -> None:
    if len(text) <= MAX_FORMULA_LENGTH:
        assert truth_table(parse(text, LETTERS), LETTERS) == _naive_table(text)


@pytest.mark.parametrize(
    ("short", "bracketed"),
    [
        ("P ∧ Q ∨ R", "((P ∧ Q) ∨ R)"),
        ("P ∨ Q ∧ R", "(P ∨ (Q ∧ R))"),
        ("P → Q → R", "((P → Q) → R)"),
        ("P ↔ Q → R", "(P ↔ (Q → R))"),
        ("¬P ∧ Q", "(¬P ∧ Q)"),
        ("¬(P ∧ Q) → ¬¬R", "(¬(P ∧ Q) → ¬¬R)"),
        ("((P))", "P"),
    ],
)
def test_operators_bind_as_in_reasoning_gym(short: str, bracketed: str) -> None:
    assert parse(short, LETTERS) == parse(bracketed, LETTERS)


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "(", ")", "()", "P Q", "P ∨", "∨ P", "P)", "(P", "p", "S", "P¬Q", "P(Q)"],
        *["P ∧ ∧ Q", "¬" * 300 + "P", "(" * 200 + "P" + ")" * 200, "PP", "P=Q", "True", "\ud800"],
    ],
)
def test_what_is_no_formula_raises(text: str) -> None:
    with pytest.raises(FormulaError):
        parse(text, LETTERS)


@given(st.text(max_size=300) | st.text("PQR()¬∧∨→↔ ", max_size=80))
def test_any_text_is_a_formula_or_an_error(text: str) -> None:
    try:
        table = truth_table(parse(text, LETTERS), LETTERS)
    except FormulaError:
        return
    assert 0 <= table < 256


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("P", {"P"}),
        ("¬P", {"P¬"}),
        ("P ∧ Q", {"P", "Q"}),
        ("¬R ∧ (¬Q)", {"Q¬", "R¬"}),
        ("P ∧ (Q ∧ ¬R)", {"P", "Q", "R¬"}),
        *[(text, None) for text in ("P ∧ P", "P ∧ ¬P", "P ∨ Q", "P → Q", "¬¬P ∧ Q", "¬(P ∧ Q)")],
        *[(text, None) for text in ("(P ∨ Q) ∧ R", "P ∧ ¬¬Q", "P ↔ Q", "P ∧ Q ∧ P", "¬¬P")],
    ],
)
def test_literals_are_the_parts_of_a_conjunction_over_different_letters(
    text: str, parts: set[str] | None
) -> None:
    found = literals(parse(text, LETTERS))
    assert (None if found is None else {"".join(part) for part in found}) == parts


def test_any_conclusion_is_what_follows_and_is_not_trivial() -> None:
    def right(text: str) -> bool:
        return is_right_conclusion(ANY_CONCLUSION, ["(P ∧ Q)", "(Q → R)"], LETTERS, text)

    assert all(map(right, ["P ∧ Q", "P ∨ R", "¬¬R", "Q → R", "P ↔ R"]))
    assert not any(map(right, ["P", "¬P", "P ∨ ¬P", "P ∧ ¬R", "P ∨ S", "nonsense"]))


def test_easy_questions_have_exactly_one_right_set_of_literals() -> None:
    instances, _ = Catalogue(bytes(32)).draw(bytes(32), "propositional_logic", EASY, 0, 8)
    for instance in instances:
        premises, letters = instance.metadata["premises"], instance.metadata["variables"]
        assert isinstance(premises, list)
        assert isinstance(letters, list)
        right = [
            text
            for signs in product(("", "¬"), repeat=4)
            for text in (" ∧ ".join(map("".join, zip(signs, "PQRS", strict=True))),)
            if is_right_conclusion(JOINT_LITERALS, premises, letters, text)
        ]
        assert right == [instance.question.answer]
        tables = [truth_table(parse(premise, letters), letters) for premise in premises]
        proven = joint_literals(tables, letters)
        assert proven == literals(parse(instance.question.answer, letters))
