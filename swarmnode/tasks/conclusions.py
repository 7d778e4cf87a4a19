"""Our propositional questions: three statements, and the one conclusion that needs two of them.

reasoning-gym pays full marks for any entailed formula that is no tautology, so a weak disjunction
or a premise answers most of its questions. Here the question asks for a two-literal clause that
no single statement entails, and questions are built so that exactly one such clause exists: two
statements share a letter of opposite signs, the third is idle. Letters, signs and orders are drawn
per question, so that neither a fixed text nor copied literals are right often. Notation and
verifier are those of swarmnode/logic.py.

Knows no reasoning-gym. Source: simulation.md section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

from swarmnode.logic import (
    JOINT_CLAUSE,
    NOT,
    OR,
    every_row,
    follows_only_jointly,
    truth_table,
)
from swarmnode.tasks.drafts import Draft

LETTERS = "PQRSTUVW"
LETTERS_PER_QUESTION = 5

Literal = tuple[str, bool]
"""A letter and its sign; True is the letter itself."""
Clause = tuple[Literal, Literal]


@dataclass(frozen=True, slots=True)
class JointConclusions:
    """The source of propositional_logic at level easy."""

    def draft(self, seed: int, index: int) -> Draft:
        """See DraftSource; never None."""
        random = Random(seed + index)
        letters = sorted(random.sample(LETTERS, LETTERS_PER_QUESTION))
        clauses = _clauses(random, letters)
        (conclusion,) = _joint_conclusions(clauses, letters)
        return _draft(clauses, letters, conclusion)


def _clauses(random: Random, letters: Sequence[str]) -> list[Clause]:
    """Two clauses that resolve on a shared letter, and one over two more letters; shuffled.

    An idle clause that shared a literal with them would be a second source to copy it from.
    """
    left, shared, right, *idle = random.sample(letters, LETTERS_PER_QUESTION)
    sign = random.random() < 0.5
    clauses = [
        [(left, random.random() < 0.5), (shared, sign)],
        [(shared, not sign), (right, random.random() < 0.5)],
        [(letter, random.random() < 0.5) for letter in idle],
    ]
    for literals in clauses:
        random.shuffle(literals)
    random.shuffle(clauses)
    return [(first, second) for first, second in clauses]


def _joint_conclusions(clauses: Sequence[Clause], letters: Sequence[str]) -> list[Clause]:
    """All two-literal clauses that are right, by truth tables."""
    rows = every_row(letters)
    holds = {(letter, True): truth_table((letter,), letters) for letter in letters}
    holds |= {(letter, False): rows ^ table for (letter, _), table in holds.items()}
    premises = [holds[first] | holds[second] for first, second in clauses]
    candidates = (
        ((first, first_sign), (second, second_sign))
        for first, second in combinations(letters, 2)
        for first_sign, second_sign in product((True, False), repeat=2)
    )
    return [
        (first, second)
        for first, second in candidates
        if follows_only_jointly(premises, holds[first] | holds[second], letters)
    ]


def _draft(clauses: Sequence[Clause], letters: Sequence[str], conclusion: Clause) -> Draft:
    """The answer has its literals in the order of the question."""
    premises = [_as_disjunction(*clause) for clause in clauses]
    order = [literal for clause in clauses for literal in clause]
    statements = "\n".join(f"{number}. {premise}" for number, premise in enumerate(premises, 1))
    return Draft(
        text=(
            f"Given:\n{statements}\n"
            "Which disjunction of two literals follows from these statements together, "
            "but from no single one?"
        ),
        answer=_as_disjunction(*sorted(conclusion, key=order.index)),
        metadata={"rule": JOINT_CLAUSE, "premises": premises, "variables": list(letters)},
    )


def _as_disjunction(first: Literal, second: Literal) -> str:
    return f"({_text(first)} {OR} {_text(second)})"


def _text(literal: Literal) -> str:
    letter, sign = literal
    return letter if sign else NOT + letter
