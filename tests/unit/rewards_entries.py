"""reasoning-gym entries of the nine tasks at the paper's parameters, for the verifiers' tests."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from functools import cache
from typing import Any

import reasoning_gym

from swarmnode.logic import ANY_CONCLUSION
from swarmnode.rewards import verify

Entry = dict[str, Any]

PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    "arc_1d": {},
    "base_conversion": {"min_value": 1, "max_value": 1000},
    "basic_arithmetic": {"format_style": "natural"},
    "bf": {},
    "binary_matrix": {},
    "calendar_arithmetic": {
        "year": 2023,
        "tasks": ["count_days", "weekday_of_date", "is_leap_year", "recurring_event_day"],
    },
    "decimal_arithmetic": {
        "min_num_decimal_places": 1,
        "max_num_decimal_places": 3,
        "precision": 5,
    },
    "fraction_simplification": {
        "min_value": 1,
        "max_value": 100,
        "min_factor": 2,
        "styles": ("plain", "latex_frac", "latex_dfrac"),
    },
    "propositional_logic": {},
}
TASKS = tuple(PARAMETERS)


@cache
def dataset(task: str) -> Any:
    """The task's dataset, of seed 11."""
    return reasoning_gym.create_dataset(task, seed=11, size=1000, **PARAMETERS[task])


@cache
def entries(task: str, count: int) -> tuple[Entry, ...]:
    """The first `count` entries; propositional_logic gets its example as its answer."""
    with contextlib.redirect_stdout(io.StringIO()):
        found = [dataset(task)[index] for index in range(count)]
    return tuple(
        entry | {"answer": entry["answer"] or entry["metadata"]["example_answer"]}
        for entry in found
    )


def metadata(task: str, entry: Entry) -> dict[str, Any]:
    """The metadata that our tasks hand to the verifiers for this entry."""
    theirs = entry["metadata"]
    if task == "decimal_arithmetic":
        return {"tolerance": "0.001"}
    if task == "propositional_logic":
        return {
            "rule": ANY_CONCLUSION,
            "premises": theirs["premises"],
            "variables": theirs["variables"],
        }
    return {}


def our_score(task: str, entry: Entry, completion: str) -> float:
    """Our verifier's score of a completion for this entry."""
    return verify(task, entry["answer"], metadata(task, entry), completion)
