"""Which answers are right, decided apart from the verifiers: by other code, or by reasoning-gym.

Nothing here is strict about forms: a text that is not right here must not be paid.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import Any

import reasoning_gym

from swarmnode.tasks import Instance
from swarmnode.tasks.reasoning_gym_source import create_dataset, plain_surroundings
from tests.security.reward_corpus import means_the_same

TOLERANCES = {
    ("decimal_arithmetic", "paper"): "0.001",
    ("number_format", "default"): "0.000001",
}
PLAYED = frozenset(
    {
        "cryptarithm",
        "jugs",
        "kakurasu",
        "palindrome_generation",
        "shortest_path",
        "tower_of_hanoi",
    }
)
"""Puzzles with several right answers, for which reasoning-gym's own scorer is asked as well."""
LISTED = {
    "knights_knaves": r"\w+ is an? \w+( knave)?",
    "palindrome_partitioning": r"\[[a-z\", ]+\]",
    "prime_factorization": r"[0-9]+",
}
"""Parts whose order says nothing."""


def is_right(instance: Instance, text: str) -> bool:
    """Whether a text, without tags, answers the question."""
    question = instance.question
    task, level, answer = question.task, question.level, question.answer.strip()
    if means_the_same(text, answer, TOLERANCES.get((task, level), "0")):
        return True
    if not _plain(text, answer):
        return False
    if task in PLAYED:
        # It takes the last of several digits for one letter.
        once = task != "cryptarithm" or text.count("=") == answer.count("=")
        return once and _paid_upstream(instance, text)
    if task in LISTED:
        return _parts(LISTED[task], text) == _parts(LISTED[task], answer)
    if task == "polynomial_equations":
        return _close(text.split(","), answer.split(","))
    if task == "power_function":
        return _number(text) is not None and f"{float(text):.2e}" == f"{float(answer):.2e}"
    if task == "fraction_simplification":
        return _parts(r"[0-9]+|-", text) == _parts(r"[0-9]+|-", answer)
    if task == "propositional_logic" and level == "easy":
        return _parts(r"¬*[A-Z]|[∨→↔]", text) == _parts(r"¬*[A-Z]|[∨→↔]", answer)
    if task == "propositional_logic":
        return _entailed(instance, text)
    return False


def _plain(text: str, answer: str) -> bool:
    """Whether a text has no characters that answers of the kind have not."""
    known = set(answer) | set("¬∧∨→↔\u2003\u2028")
    return all(character in known or " " <= character < "\x7f" for character in text.strip())


def _parts(pattern: str, text: str) -> Counter[str]:
    found = (match[0] for match in re.finditer(pattern, text))
    return Counter(re.sub(r"\s", " ", part).lower() for part in found)


def _number(text: str) -> float | None:
    found = re.fullmatch(r"\s*[-+]?[0-9.]+(e[-+]?[0-9]+)?\s*", text, re.ASCII | re.IGNORECASE)
    return float(text) if found and text.count(".") < 2 else None


def _close(given: list[str], right: list[str]) -> bool:
    values = [_number(one) for one in given]
    if None in values or len(values) != len(right):
        return False
    found = sorted(value for value in values if value is not None)
    pairs = zip(found, sorted(map(float, right)), strict=True)
    return all(abs(one - other) < 0.000101 for one, other in pairs)


def upstream_score(instance: Instance, text: str) -> float:
    """What reasoning-gym's own scorer pays for a text at level default; raises what it raises."""
    dataset, entry = _entry(instance.question.task, instance.seed, instance.question.index)
    with plain_surroundings():
        return float(dataset.score_answer(text.strip(), entry))


def _paid_upstream(instance: Instance, text: str) -> bool:
    try:
        return upstream_score(instance, text) == 1.0
    except Exception:
        return False


@lru_cache(64)
def _entry(task: str, seed: int, index: int) -> tuple[Any, Any]:
    dataset = create_dataset(task, seed)
    return dataset, dataset[index]


@lru_cache(1)
def _logic() -> Any:
    return reasoning_gym.create_dataset("propositional_logic", seed=1, size=1)


def _entailed(instance: Instance, text: str) -> bool:
    entry = {"answer": None, "metadata": {**instance.metadata, "example_answer": ""}}
    try:
        return bool(_logic().score_answer(text.strip(), entry) == 1.0)
    except Exception:
        return False
