"""From reasoning-gym's entries to drafts: what a level takes, and the metadata that it keeps.

The keys are those of the contract in swarmnode/tasks/levels.py. Functions named `easy_...` refuse
entries (None) or reword them, so that `easy` stays short, has no paraphrases of one question and
no answer that is right too often. Knows no streams; imports no reasoning-gym.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from swarmnode.logic import ANY_CONCLUSION, is_right_conclusion
from swarmnode.tasks.drafts import Draft
from swarmnode.tasks.reasoning_gym_source import Entry

EASY_BASES = (2, 4)
EASY_RULES = frozenset(
    {
        "move_1pix_solid_left",
        "move_1pix_solid_right",
        "move_2pix_solid_left",
        "move_2pix_solid_right",
        "change_to_five",
        "two_points_and_fill",
    }
)

BF_QUESTION = (
    "This is a BF (Brainf*ck) computer program. What is the output?\n\n{program}\n\n"
    "Respond only with the exact output of the program."
)
COUNT_QUESTION = (
    "Count the occurrences of {weekday} from {start} to {end}, 2023 "
    "(including both start and end dates). Answer with a number."
)
_COUNTED_WEEKDAY = re.compile(
    r"How many (\w+)s are|occurrences of (\w+) from|times does (\w+) occur"
)
_DATE = re.compile(r"\w+day, [A-Z]\w+ \d+")
LAST_START_MONTH = 7


def plain(entry: Entry) -> Draft:
    """Keep question and answer; the verifier needs nothing else."""
    return Draft(entry["question"], entry["answer"], {})


def base_conversion(entry: Entry) -> Draft:
    """Refuses nothing; levels keep values of at least 1 (0 has no scorable answer)."""
    kept = entry["metadata"]
    return Draft(entry["question"], entry["answer"], {"target_base": kept["target_base"]})


def easy_base_conversion(entry: Entry) -> Draft | None:
    """Takes conversions between binary and base 4."""
    kept = entry["metadata"]
    bases = (kept["source_base"], kept["target_base"])
    return base_conversion(entry) if all(base in EASY_BASES for base in bases) else None


def easy_basic_arithmetic(entry: Entry) -> Draft | None:
    """Takes a sum or difference of two-digit numbers without carrying or borrowing."""
    expression = entry["metadata"]["expression"]
    return plain(entry) if _digit_by_digit(r"(\d)(\d) ([+-]) (\d)(\d)", expression) else None


def _digit_by_digit(pattern: str, expression: str) -> bool:
    """Whether two numbers of two digits combine without carrying or borrowing."""
    match = re.fullmatch(pattern, expression)
    if match is None:
        return False
    digits, sign = [int(match[group]) for group in (1, 2, 4, 5)], match[3]
    columns = zip(digits[:2], digits[2:], strict=True)
    return all(0 <= (one + other if sign == "+" else one - other) <= 9 for one, other in columns)


def arc_1d(entry: Entry) -> Draft:
    """Keeps the number of cells."""
    return Draft(entry["question"], entry["answer"], {"size": entry["metadata"]["size"]})


def easy_arc_1d(entry: Entry) -> Draft | None:
    """Takes a few rules that one example shows, where sorting the cells is no answer."""
    cells = entry["answer"].split()
    if entry["metadata"]["task_name"] not in EASY_RULES or cells == sorted(cells):
        return None
    return arc_1d(entry)


def easy_bf(entry: Entry) -> Draft:
    """One wording for every program, so that no word is asked for in two questions."""
    program = entry["metadata"]["bf_program"]
    return Draft(BF_QUESTION.format(program=program), entry["answer"], {})


def fraction_simplification(entry: Entry) -> Draft:
    """Keeps both fractions and the notation."""
    names = ("numerator", "denominator", "simplified_numerator", "simplified_denominator", "style")
    return Draft(
        entry["question"], entry["answer"], {name: entry["metadata"][name] for name in names}
    )


def easy_fraction_simplification(entry: Entry) -> Draft | None:
    """Takes fractions of two-digit numbers."""
    kept = entry["metadata"]
    numbers = (kept["numerator"], kept["denominator"])
    return fraction_simplification(entry) if all(10 <= one <= 99 for one in numbers) else None


def decimal_arithmetic(tolerance: str) -> Callable[[Entry], Draft]:
    """Takes everything; an answer may be `tolerance` off."""
    return lambda entry: Draft(entry["question"], entry["answer"], {"tolerance": tolerance})


def easy_decimal_arithmetic(entry: Entry) -> Draft | None:
    """Takes a sum or difference, exactly answered, without carrying or borrowing."""
    expression = entry["question"].rpartition("\n")[2].removesuffix(" = ?")
    if not _digit_by_digit(r"(\d)\.(\d)([+-])(\d)\.(\d)", expression):
        return None
    return Draft(entry["question"], entry["answer"], {"tolerance": "0"})


def calendar_arithmetic(entry: Entry) -> Draft:
    """Keeps the kind of question."""
    return Draft(entry["question"], entry["answer"], {"task": entry["metadata"]["task"]})


def easy_calendar_arithmetic(entry: Entry) -> Draft | None:
    """Asks in one wording how often a weekday occurs between two dates.

    Answers in weekdays, or in the days of one week of a month, are guessed in one of seven tries.
    reasoning-gym cuts ranges at the end of the year, so late ones have small answers too often.
    """
    kept = entry["metadata"]
    if int(kept["start_date"].split("-")[1]) > LAST_START_MONTH:
        return None
    counted = _COUNTED_WEEKDAY.search(entry["question"])
    start, end = _DATE.findall(entry["question"])
    if counted is None:
        raise ValueError("a wording that reasoning-gym 0.1.25 does not have")
    text = COUNT_QUESTION.format(weekday=counted[counted.lastindex or 0], start=start, end=end)
    return Draft(text, entry["answer"], {"task": kept["task"]})


def binary_matrix(entry: Entry) -> Draft:
    """Keeps the number of rows."""
    return Draft(entry["question"], entry["answer"], {"n": entry["metadata"]["n"]})


def easy_binary_matrix(entry: Entry) -> Draft | None:
    """Takes matrices with a distance of at least 2, so that copying the matrix is never right."""
    farthest = max(max(row) for row in entry["metadata"]["solution"])
    return binary_matrix(entry) if farthest >= 2 else None


def propositional_logic(entry: Entry) -> Draft | None:
    """Takes questions for which a right conclusion is known, under reasoning-gym's own rule.

    reasoning-gym stores no answer, and its example is at times a wrong or trivial fallback. The
    reference answer is the first right one of its example, the premises, and their conjunction.
    """
    kept = entry["metadata"]
    premises, variables = list(kept["premises"]), list(kept["variables"])
    whole = " ∧ ".join(f"({premise})" for premise in premises)
    for candidate in (kept["example_answer"], *premises, whole):
        if is_right_conclusion(ANY_CONCLUSION, premises, variables, candidate):
            metadata = {"rule": ANY_CONCLUSION, "premises": premises, "variables": variables}
            return Draft(entry["question"], candidate, metadata)
    return None
