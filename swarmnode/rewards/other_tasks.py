"""How the answers of reasoning-gym's other tasks are verified: by us, never by its own scorers.

Its scorers pay shares for text that holds the answer, marks for nonsense that parses, and full
marks for some answers that are none (docs/decisions/0017): a peer's text reaches none of them. A
task that is not named here has one right answer, the reference, in its normal form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType

from swarmnode.rewards import puzzles
from swarmnode.rewards.same_answer import (
    Metadata,
    Verifier,
    in_any_order,
    list_within,
    number,
    same_answer,
    within,
)

_BETWEEN_INHABITANTS = re.compile(r",and |,| and ")


def _three_digits(given: str, answer: str, metadata: Metadata) -> float:
    """The reference, which has more digits, rounded to the three that the question asks for."""
    if number(given) is None:
        return 0.0
    return float(f"{Decimal(given.replace(',', '')):.2e}" == f"{Decimal(answer):.2e}")


def _partitions(normal_form: str) -> list[str]:
    """The inner lists of a list of lists; the text itself where it is none."""
    whole = normal_form.startswith("[[") and normal_form.endswith("]]")
    return normal_form[2:-2].split("],[") if whole else [normal_form]


OTHER_VERIFIERS: Mapping[str, Verifier] = MappingProxyType(
    {
        "cryptarithm": puzzles.cryptarithm,
        "jugs": puzzles.jugs,
        "kakurasu": puzzles.kakurasu,
        "knights_knaves": in_any_order(_BETWEEN_INHABITANTS.split),
        # Candidates are shown with six decimals; the stored answer has a float's.
        "number_format": within(Fraction(1, 10**6)),
        "palindrome_generation": puzzles.palindrome,
        "palindrome_partitioning": in_any_order(_partitions),
        # The question's way of rounding is not the one of the stored answer.
        "polynomial_equations": list_within(Fraction(1, 10**4)),
        "power_function": _three_digits,
        "prime_factorization": in_any_order(lambda factors: factors.split("×")),
        "shortest_path": puzzles.shortest_path,
        "tower_of_hanoi": puzzles.hanoi,
    }
)
"""Tasks whose question takes more than one text."""


def verifier_of(task: str) -> Verifier:
    """The verifier of any task at level default."""
    return OTHER_VERIFIERS.get(task, same_answer)
