"""Our own verifiers: what a completion's answer is worth, in [0, 1].

Those of the paper's nine tasks stand here, the others in `rewards.other_tasks`.

They compare text and parse numbers whose characters and lengths were checked before; none
evaluates text as code. They know the reference answer and the metadata of the question's
regeneration (swarmnode/tasks/levels.py documents it), no peer's words but the completion.

The nine agree with reasoning-gym's `score_answer` on the stripped answer, apart from the
differences of this table. Each is deliberate and pays less than reasoning-gym does:

| difference          | tasks                      | reasoning-gym pays                            |
|---------------------|----------------------------|-----------------------------------------------|
| substring           | arc_1d, base_conversion,   | a share for longer text that holds the answer,|
|                     | basic_arithmetic, bf       | so that listing candidates earns              |
| floor for nothing   | calendar_arithmetic,       | 0.01 to 0.25 for any answer, formula or       |
|                     | fraction_simplification,   | tautology; group advantages blow floors up    |
|                     | propositional_logic        |                                               |
| restated question   | fraction_simplification    | 0.1 for the question's own numerator or       |
|                     |                            | denominator                                   |
| near count          | calendar_arithmetic        | exp(-5 x relative error), which a fixed guess |
|                     |                            | farms; above 1 where the answer is -1         |
| text after fraction | fraction_simplification    | 1 whatever follows a LaTeX fraction           |
| exotic number       | calendar_arithmetic,       | what int() and Decimal() read: other scripts' |
|                     | decimal_arithmetic,        | digits, underscores, huge exponents; signs in |
|                     | fraction_simplification    | fractions                                     |
| rounded difference  | decimal_arithmetic         | 1 for an error that a context of few digits   |
|                     |                            | rounds down to the tolerance                  |
| evaluated matrix    | binary_matrix              | 0.1 for any Python expression of the matrix,  |
|                     |                            | since it evaluates the answer                 |
| ill-formed formula  | propositional_logic, level | as if variables outside the question and      |
|                     | paper                      | broken brackets were variables                |
| needless premise    | propositional_logic, our   | 1 for any entailed formula that is no         |
|                     | levels                     | tautology (docs/decisions/0005)               |
| over the cap        | all                        | whatever the length                           |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType

from swarmnode.logic import is_right_conclusion
from swarmnode.rewards.extraction import extract_answer
from swarmnode.rewards.other_tasks import verifier_of
from swarmnode.rewards.same_answer import Metadata, Verifier

ANSWER_BYTES = 1024
GRID_BYTES = 4 * 1024

_COUNT = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(
    r"[+-]?(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24})(?:[eE][+-]?[0-9]{1,2})?"
)
_FRACTION = re.compile(
    r"([0-9]{1,20})\s*/\s*([0-9]{1,20})"
    r"|\\d?frac\s*\{\s*([0-9]{1,20})\s*\}\s*\{\s*([0-9]{1,20})\s*\}",
    re.IGNORECASE,
)


def verify(task: str, answer: str, metadata: Metadata, completion: str) -> float:
    """What `completion` is worth for a question with the reference `answer`, in [0, 1].

    Pure, and finite for every completion text. A task outside VERIFIERS is taken for one of
    reasoning-gym's others; which names exist is for the catalogue to say.
    """
    verifier = VERIFIERS.get(task) or verifier_of(task)
    short = task in VERIFIERS and task not in GRID_TASKS
    given = extract_answer(completion, ANSWER_BYTES if short else GRID_BYTES)
    return verifier(given, answer.strip(), metadata) if given else 0.0


def verify_by(verifier: Verifier, answer: str, metadata: Metadata, completion: str) -> float:
    """The same by a verifier that another package brings; raises ValueError for no score."""
    given = extract_answer(completion, GRID_BYTES)
    worth = float(verifier(given, answer.strip(), metadata)) if given else 0.0
    if not 0.0 <= worth <= 1.0:
        raise ValueError(f"a score of {worth}")
    return worth


def _exact(given: str, answer: str, metadata: Metadata) -> float:
    return float(given == answer)


def _fraction(given: str, answer: str, metadata: Metadata) -> float:
    """The pair itself must be in lowest terms, in whichever notation."""
    numbers = _numerator_and_denominator(given)
    return float(numbers is not None and numbers == _numerator_and_denominator(answer))


def _numerator_and_denominator(text: str) -> tuple[int, int] | None:
    match = _FRACTION.fullmatch(text.strip("$").strip())
    if match is None:
        return None
    numerator, denominator = (int(group) for group in match.groups() if group is not None)
    return numerator, denominator


def _decimal(given: str, answer: str, metadata: Metadata) -> float:
    if not _DECIMAL.fullmatch(given):
        return 0.0
    error = abs(Fraction(given) - _exactly(answer))
    return float(error <= _exactly(str(metadata["tolerance"])))


_exactly = lru_cache(1024)(Fraction)
"""Of our own numbers, which recur for every answer to a question."""


def _calendar(given: str, answer: str, metadata: Metadata) -> float:
    """Counts as integers, Yes and No in any case, weekdays as written."""
    if _COUNT.fullmatch(answer):
        return float(_COUNT.fullmatch(given) is not None and int(given) == int(answer))
    if answer in ("Yes", "No"):
        return float(given.lower() == answer.lower())
    return float(given == answer)


def _matrix(given: str, answer: str, metadata: Metadata) -> float:
    """A tenth for the right matrix written as a list of lists."""
    if given == answer:
        return 1.0
    rows = (",".join(row.split()) for row in answer.splitlines())
    return 0.1 if "".join(given.split()) == f"[[{'],['.join(rows)}]]" else 0.0


def _conclusion(given: str, answer: str, metadata: Metadata) -> float:
    rule, premises, letters = (metadata[key] for key in ("rule", "premises", "variables"))
    assert isinstance(rule, str)
    assert isinstance(premises, list)
    assert isinstance(letters, list)
    return float(is_right_conclusion(rule, premises, letters, given))


GRID_TASKS = frozenset({"arc_1d", "binary_matrix"})

VERIFIERS: Mapping[str, Verifier] = MappingProxyType(
    {
        "arc_1d": _exact,
        "base_conversion": _exact,
        "basic_arithmetic": _exact,
        "bf": _exact,
        "binary_matrix": _matrix,
        "calendar_arithmetic": _calendar,
        "decimal_arithmetic": _decimal,
        "fraction_simplification": _fraction,
        "propositional_logic": _conclusion,
    }
)
