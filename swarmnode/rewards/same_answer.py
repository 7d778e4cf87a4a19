"""Whether an answer says the same as the reference: numbers by value, all else by its normal form.

Pure and linear in texts whose length was capped before. Knows no task; `rewards.other_tasks` says
which task compares how. Stricter than reasoning-gym's scorers on purpose: nothing but ASCII digits
is a number, nothing but A to Z has another case, and nothing may stand beside the answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

Metadata = Mapping[str, object]
Verifier = Callable[[str, str, Metadata], float]
"""(answer, reference answer, metadata) to a score in [0, 1]; raises for no answer text."""

KEPT_FORMS = 256

_NUMBER = re.compile(
    r"[+-]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,8}|[0-9]{1,24})(?:\.[0-9]{0,24})?(?:[eE][+-]?[0-9]{1,2})?"
)
_SPACES = re.compile(r"[ \t\r]+")
_SIGNS = "[](),;:×="
_LOWER = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def number(text: str) -> Fraction | None:
    """The value of a plain decimal, which may have commas at thousands and a small exponent."""
    return Fraction(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


def normal_form(text: str) -> str:
    """The text without what never changes an answer's meaning.

    That is: spaces at the ends of lines, empty lines, more than one space, spaces beside brackets
    and separators, the case of ASCII letters, and a full stop at the end.
    """
    lines = (_SPACES.sub(" ", line).strip(" ") for line in text.split("\n"))
    form = "\n".join(line for line in lines if line)
    for sign in _SIGNS:
        form = form.replace(f" {sign}", sign).replace(f"{sign} ", sign).replace(f"{sign}\n", sign)
    return form.removesuffix(".").translate(_LOWER)


_form_of_reference = lru_cache(KEPT_FORMS)(normal_form)
"""Of our own answers, which recur for every completion of a question."""


def same_answer(given: str, answer: str, metadata: Metadata) -> float:
    """1.0 for the reference answer: the same number if it is one, else the same normal form."""
    value = number(answer)
    if value is not None:
        return float(number(given) == value)
    return float(normal_form(given) == _form_of_reference(answer))


def in_any_order(split: Callable[[str], Sequence[str]]) -> Verifier:
    """Takes the reference's parts, each exactly once; `split` is given normal forms."""

    def verifier(given: str, answer: str, metadata: Metadata) -> float:
        return float(sorted(split(normal_form(given))) == sorted(split(_form_of_reference(answer))))

    return verifier


def within(tolerance: Fraction) -> Verifier:
    """Takes a number that is at most so far from the reference."""

    def verifier(given: str, answer: str, metadata: Metadata) -> float:
        value = number(given)
        return float(value is not None and abs(value - Fraction(answer)) <= tolerance)

    return verifier


def list_within(tolerance: Fraction) -> Verifier:
    """Takes the reference's numbers, in any order between commas, each at most so far off."""

    def verifier(given: str, answer: str, metadata: Metadata) -> float:
        parts, right = given.split(","), sorted(map(Fraction, answer.split(",")))
        if len(parts) != len(right):
            return 0.0
        values = [number(part.strip(" ")) for part in parts]
        found = sorted(value for value in values if value is not None)
        return float(
            len(found) == len(right)
            and all(abs(one - other) <= tolerance for one, other in zip(found, right, strict=True))
        )

    return verifier
