"""The nine tasks of the paper and their levels: parameters, and what counts as right.

`paper` has the parameters of rl-swarm's runs (its datasets.yaml). `easy` is for models of 0.1 to
1 M parameters: short questions with few digits, at least 1000 distinct texts, one wording per
question, and no fixed or copied answer that is right in more than a tenth (docs/tasks.md has the
measurements). Knows no swarm, key or held-out rule.

Metadata contract: the keys that an Instance carries, for the verifiers of swarmnode/rewards. Apart
from the stripped reference answer a verifier needs nothing else.

| task                    | metadata                                | right                       |
|-------------------------|-----------------------------------------|-----------------------------|
| arc_1d                  | size: int, number of cells              | the answer's text           |
| base_conversion         | target_base: int                        | the answer's text           |
| basic_arithmetic        | none                                    | the answer's text           |
| bf                      | none                                    | the answer's text           |
| binary_matrix           | n: int, number of rows                  | the answer's text: rows by  |
|                         |                                         | newlines, cells by a space  |
| calendar_arithmetic     | task: str, one of weekday_of_date,      | weekday: the answer's text; |
|                         | is_leap_year, count_days,               | number: the same integer;   |
|                         | recurring_event_day                     | Yes or No in any case       |
| decimal_arithmetic      | tolerance: str, a decimal ("0" is       | a decimal that differs from |
|                         | exact; "0.001" at paper)                | the answer by no more       |
| fraction_simplification | numerator, denominator,                 | the simplified pair, in     |
|                         | simplified_numerator,                   | whichever notation          |
|                         | simplified_denominator: int; style: str |                             |
| propositional_logic     | rule: str; premises: list[str];         | swarmnode.logic.            |
|                         | variables: list[str] (capital letters)  | is_right_conclusion         |

propositional_logic's rule is "any_conclusion" at `paper` (what reasoning-gym's own verifier pays:
any entailed formula that is neither a bare letter nor a tautology) and "joint_literals" at `easy`
(the conjunction, in any order, of all literals that the premises entail together and none entails
alone). The canonical answer that a model should write is the question's `answer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from swarmnode.tasks import presenting
from swarmnode.tasks.conclusions import JointConclusions
from swarmnode.tasks.drafts import DraftSource
from swarmnode.tasks.reasoning_gym_source import Present, ReasoningGymSource

PAPER = "paper"
EASY = "easy"


@dataclass(frozen=True, slots=True)
class Level:
    """A named parameter set of a task."""

    source: DraftSource
    note: str
    """Parameters and restrictions, for docs/tasks.md."""


def _reasoning_gym(
    task: str,
    present: Present,
    *variants: Mapping[str, object],
    attempts: int = 1,
    note: str = "",
) -> Level:
    shared = " | ".join(
        ", ".join(f"{name} {_written(value)}" for name, value in parameters.items())
        for parameters in variants
    )
    source = ReasoningGymSource(task, present, variants, attempts)
    return Level(source, f"{shared}; {note}" if note else shared)


def _written(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


LEVELS: Mapping[str, Mapping[str, Level]] = MappingProxyType(
    {
        "arc_1d": {
            PAPER: _reasoning_gym(
                "arc_1d", presenting.arc_1d, {"min_size": 10, "max_size": 30, "num_train": 3}
            ),
            EASY: _reasoning_gym(
                "arc_1d",
                presenting.easy_arc_1d,
                {"min_size": 8, "max_size": 8, "num_train": 1},
                attempts=256,
                note="rules "
                + " ".join(sorted(presenting.EASY_RULES))
                + "; the answer is not sorted",
            ),
        },
        "base_conversion": {
            PAPER: _reasoning_gym(
                "base_conversion",
                presenting.base_conversion,
                {"min_base": 2, "max_base": 16, "min_value": 1, "max_value": 1000},
            ),
            EASY: _reasoning_gym(
                "base_conversion",
                presenting.easy_base_conversion,
                {"min_base": 2, "max_base": 4, "min_value": 1, "max_value": 600},
                attempts=64,
                note="between bases 2 and 4",
            ),
        },
        "basic_arithmetic": {
            PAPER: _reasoning_gym(
                "basic_arithmetic",
                presenting.plain,
                {
                    "min_terms": 2,
                    "max_terms": 6,
                    "min_digits": 1,
                    "max_digits": 4,
                    "operators": ["+", "-", "*", "/"],
                    "allow_parentheses": True,
                    "allow_negation": True,
                    "format_style": "natural",
                    "whitespace": "single",
                },
            ),
            EASY: _reasoning_gym(
                "basic_arithmetic",
                presenting.easy_basic_arithmetic,
                {
                    "min_terms": 2,
                    "max_terms": 2,
                    "min_digits": 2,
                    "max_digits": 2,
                    "operators": ["+", "-"],
                    "allow_parentheses": False,
                    "format_style": "simple",
                },
                attempts=512,
                note="two-digit numbers, no carrying or borrowing",
            ),
        },
        "bf": {
            PAPER: _reasoning_gym("bf", presenting.plain, {"difficulty": 1}),
            EASY: _reasoning_gym("bf", presenting.easy_bf, {"difficulty": 1}, note="one wording"),
        },
        "binary_matrix": {
            PAPER: _reasoning_gym(
                "binary_matrix",
                presenting.binary_matrix,
                {"min_n": 3, "max_n": 10, "p_zero": 0.25},
            ),
            EASY: _reasoning_gym(
                "binary_matrix",
                presenting.easy_binary_matrix,
                {"min_n": 3, "max_n": 4, "p_zero": 0.35},
                attempts=64,
                note="with a distance of at least 2",
            ),
        },
        "calendar_arithmetic": {
            PAPER: _reasoning_gym(
                "calendar_arithmetic",
                presenting.calendar_arithmetic,
                {
                    "year": 2023,
                    "offset_upper_bound": 100,
                    "leap_year_range": 200,
                    "tasks": [
                        "count_days",
                        "weekday_of_date",
                        "is_leap_year",
                        "recurring_event_day",
                    ],
                },
            ),
            EASY: _reasoning_gym(
                "calendar_arithmetic",
                presenting.easy_calendar_arithmetic,
                {"year": 2023, "offset_upper_bound": 140, "tasks": ["count_days"]},
                attempts=64,
                note="one wording, ranges that begin before August",
            ),
        },
        "decimal_arithmetic": {
            PAPER: _reasoning_gym(
                "decimal_arithmetic",
                presenting.decimal_arithmetic("0.001"),
                {
                    "min_terms": 2,
                    "max_terms": 6,
                    "min_num_decimal_places": 1,
                    "max_num_decimal_places": 3,
                    "precision": 5,
                },
            ),
            EASY: _reasoning_gym(
                "decimal_arithmetic",
                presenting.easy_decimal_arithmetic,
                {
                    "min_terms": 2,
                    "max_terms": 2,
                    "min_num_decimal_places": 1,
                    "max_num_decimal_places": 1,
                    "precision": 4,
                },
                attempts=512,
                note="sums and differences, no carrying or borrowing, exact",
            ),
        },
        "fraction_simplification": {
            PAPER: _reasoning_gym(
                "fraction_simplification",
                presenting.fraction_simplification,
                {
                    "min_value": 1,
                    "max_value": 100,
                    "min_factor": 2,
                    "max_factor": 100,
                    "styles": ("plain", "latex_frac", "latex_dfrac"),
                },
            ),
            EASY: _reasoning_gym(
                "fraction_simplification",
                presenting.easy_fraction_simplification,
                {
                    "min_value": 1,
                    "max_value": 49,
                    "min_factor": 2,
                    "max_factor": 6,
                    "styles": ("plain",),
                },
                attempts=256,
                note="numbers of two digits",
            ),
        },
        "propositional_logic": {
            PAPER: _reasoning_gym(
                "propositional_logic",
                presenting.propositional_logic,
                {
                    "min_vars": 2,
                    "max_vars": 4,
                    "min_statements": 2,
                    "max_statements": 4,
                    "min_complexity": 1,
                    "max_complexity": 3,
                },
                note="reasoning-gym's own rule of what is right",
            ),
            EASY: Level(
                JointConclusions(),
                "our own questions: six facts and four equivalences; right is the conjunction of "
                "the four literals that only statements together prove",
            ),
        },
    }
)
"""Levels by task and level name."""
