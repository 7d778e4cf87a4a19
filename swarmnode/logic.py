"""Propositional formulas as postfix tokens, and their truth tables as bit masks.

A leaf that tasks and rewards share, so that the question and its verifier mean the same by
"follows". Knows nothing of questions, scores or peers. Nothing here recurses or evaluates text as
code; parsing is linear in the text, which is capped.

Grammar (that of reasoning-gym's propositional_logic): capital letters, parentheses, and in order of
binding ¬, ∧, ∨, →, ↔; binary operators of one rank associate to the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

Formula = tuple[str, ...]
"""Postfix tokens: letters and the operators ¬ ∧ ∨ → ↔."""

MAX_FORMULA_LENGTH = 256
"""Characters of a formula's text; longer texts are no formulas."""

MAX_LETTERS = 12
"""Letters of a truth table, so that a table has at most 4096 bits."""

FACTS_KEPT = 1024
"""Questions whose premises were worked out last: a question has many answers."""

NOT, AND, OR, IMPLIES, IFF = "¬", "∧", "∨", "→", "↔"
_RANK = {IFF: 1, IMPLIES: 2, OR: 3, AND: 4, NOT: 5}


class FormulaError(ValueError):
    """The text is not a formula over the given letters."""


def parse(text: str, letters: Sequence[str]) -> Formula:
    """Read a formula over `letters` (shunting-yard).

    Raises:
        FormulaError: for anything else, foreign letters and over-long texts included.
    """
    if len(text) > MAX_FORMULA_LENGTH:
        raise FormulaError(f"longer than {MAX_FORMULA_LENGTH} characters")
    output: list[str] = []
    waiting: list[str] = []
    operand_expected = True
    for token in text:
        if token.isspace():
            continue
        if operand_expected != (token in letters or token in (NOT, "(")):
            raise FormulaError(f"unexpected {token!r}")
        if token in letters:
            output.append(token)
            operand_expected = False
        elif token in (NOT, "("):
            waiting.append(token)
        elif token == ")":
            _close_parenthesis(output, waiting)
        elif token in _RANK:
            while waiting and waiting[-1] != "(" and _RANK[waiting[-1]] >= _RANK[token]:
                output.append(waiting.pop())
            waiting.append(token)
            operand_expected = True
        else:
            raise FormulaError(f"unexpected {token!r}")
    if operand_expected or "(" in waiting:
        raise FormulaError("the formula ends too early")
    output.extend(reversed(waiting))
    return tuple(output)


def _close_parenthesis(output: list[str], waiting: list[str]) -> None:
    while waiting and waiting[-1] != "(":
        output.append(waiting.pop())
    if not waiting:
        raise FormulaError("unbalanced parenthesis")
    waiting.pop()


def every_row(letters: Sequence[str]) -> int:
    """The truth table of a tautology: one set bit for each of the 2**len(letters) rows."""
    return (1 << (1 << len(letters))) - 1


def truth_table(formula: Formula, letters: Sequence[str]) -> int:
    """The rows where the formula holds, as a mask of 2**len(letters) bits.

    Bit i of the mask is the row where letter j is true if and only if bit j of i is set.

    Raises:
        FormulaError: for more than MAX_LETTERS letters.
    """
    if len(letters) > MAX_LETTERS:
        raise FormulaError(f"more than {MAX_LETTERS} letters")
    full = every_row(letters)
    columns = {letter: _column(place, len(letters)) for place, letter in enumerate(letters)}
    stack: list[int] = []
    for token in formula:
        if token == NOT:
            stack.append(full ^ stack.pop())
        elif token in _RANK:
            right, left = stack.pop(), stack.pop()
            stack.append(_combine(token, left, right, full))
        else:
            stack.append(columns[token])
    return stack.pop()


@cache
def _column(place: int, count: int) -> int:
    """The rows, of 2**count, where the letter at `place` is true."""
    width = 1 << place
    period = ((1 << width) - 1) << width
    repeats = 1 << (count - place - 1)
    return sum(period << 2 * width * repeat for repeat in range(repeats))


def _combine(operator: str, left: int, right: int, full: int) -> int:
    if operator == AND:
        return left & right
    if operator == OR:
        return left | right
    if operator == IMPLIES:
        return (full ^ left) | right
    return full ^ left ^ right


def conjunction(tables: Iterable[int], letters: Sequence[str]) -> int:
    """The rows where all tables hold; all rows for none."""
    rows = every_row(letters)
    for table in tables:
        rows &= table
    return rows


def entails(premise: int, conclusion: int) -> bool:
    """Whether the conclusion's table holds in every row of the premise's table."""
    return premise & ~conclusion == 0


def follows_only_jointly(premises: Sequence[int], conclusion: int, letters: Sequence[str]) -> bool:
    """Whether all premises together entail the conclusion and no single one does.

    A tautology is entailed by every single premise, so it never passes. Contradictory premises
    entail everything; levels that use this rule have none.
    """
    return entails(conjunction(premises, letters), conclusion) and not any(
        entails(premise, conclusion) for premise in premises
    )


def literals(formula: Formula) -> frozenset[Formula] | None:
    """The parts of a conjunction of literals over different letters; None for all else.

    A literal is a letter or its single negation, so `¬¬P ∧ Q` and `P ∧ P` are none; a literal
    alone is a conjunction of one.
    """
    parts: list[Formula] = []
    for before, token in pairwise(("", *formula)):
        if token == NOT and before not in _RANK:
            parts[-1] = (before, NOT)
        elif token in _RANK and token != AND:
            return None
        elif token != AND:
            parts.append((token,))
    different = len({part[0] for part in parts}) == len(parts)
    return frozenset(parts) if different else None


def joint_literals(premises: Sequence[int], letters: Sequence[str]) -> frozenset[Formula]:
    """All literals over `letters` that follow from the premises' tables only jointly."""
    return frozenset(
        literal
        for letter in letters
        for literal in ((letter,), (letter, NOT))
        if follows_only_jointly(premises, truth_table(literal, letters), letters)
    )


JOINT_LITERALS = "joint_literals"
ANY_CONCLUSION = "any_conclusion"


def is_right_conclusion(
    rule: str, premises: Sequence[str], letters: Sequence[str], text: str
) -> bool:
    """Whether `text` answers a propositional question under the rule of its level.

    JOINT_LITERALS: the conjunction, in any order, of all the literals that follow from the
    premises together and from no single one. ANY_CONCLUSION: whatever follows and is neither a
    bare letter nor a tautology, which is what reasoning-gym pays in full. A text that is no
    formula is never right.

    Raises:
        FormulaError: when a premise is no formula over `letters`.
    """
    given = _facts(tuple(premises), tuple(letters))
    try:
        formula = parse(text, letters)
    except FormulaError:
        return False
    if rule == JOINT_LITERALS:
        return literals(formula) == given.joint
    table = truth_table(formula, letters)
    trivial = len(formula) == 1 or table == every_row(letters)
    return not trivial and entails(given.together, table)


class _Facts(NamedTuple):
    """What the premises of a question say, whatever is answered."""

    together: int
    """Where they all hold."""
    joint: frozenset[Formula]


@lru_cache(FACTS_KEPT)
def _facts(premises: tuple[str, ...], letters: tuple[str, ...]) -> _Facts:
    tables = [truth_table(parse(premise, letters), letters) for premise in premises]
    return _Facts(conjunction(tables, letters), joint_literals(tables, letters))
