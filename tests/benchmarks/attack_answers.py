"""Answers that solve nothing: constants, copies and shallow rules, for the attack on verifiers.

A heuristic is a pure function of the question's text (a lookup also of a training sample) that
needs no understanding of the task. Knows no scores.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import combinations, permutations, product

Heuristic = Callable[[str], str | None]

COMMON_ANSWERS = 60
LOOKUP_TOKENS = 40
PARSED_QUESTIONS = 16384
STRINGS = (
    *("", " ", "0", "1", "-1", "1/1", "1/2", "0/0", "a/b", "hello", "Yes", "No", "True", "False"),
    *("None", "null", "NaN", "nan", "sNaN", "Infinity", "-inf", "1e999999", "0.0", "0.5", "1e0"),
    *("[]", "[[]]", "()", "{}", "...", "?", "answer", "The answer is 1", "I don't know", "¬", "∨"),
    *("[[0, 1], [1, 0]]", "0 0\n0 0", "<answer></answer>", "<answer>0</answer>", "9" * 300),
)
ARITHMETIC_IS_THE_TASK = frozenset(
    {"basic_arithmetic", "decimal_arithmetic", "chain_sum", "decimal_chain_sum"}
)


def constants(task: str, answers: Sequence[str]) -> list[str]:
    """Fixed answers: the commonest of a sample, numbers, nonsense, and small formulas."""
    common = [answer for answer, _ in Counter(answers).most_common(COMMON_ANSWERS)]
    numbers = [str(number) for number in range(-20, 201)]
    formulas = list(_formulas("PQRSTU")) if task == "propositional_logic" else []
    return list(dict.fromkeys([*common, *numbers, *STRINGS, *formulas]))


def _formulas(letters: str) -> Iterator[str]:
    literals = [sign + letter for letter in letters for sign in ("", "¬")]
    yield from literals
    for left, right in product(literals, repeat=2):
        for operator in "∧∨→↔":
            yield f"({left} {operator} {right})"
    for left, middle, right in combinations(letters, 3):
        yield f"({left} ∨ {middle} ∨ {right})"
        yield f"((¬{left} ∨ ¬{middle}) ∨ ¬{right})"
    for signs in product(("", "¬"), repeat=4):
        yield " ∧ ".join(map("".join, zip(signs, letters, strict=False)))
        yield " ∨ ".join(map("".join, zip(signs, letters, strict=False)))


def heuristics(task: str, pairs: Sequence[tuple[str, str]]) -> dict[str, Heuristic]:
    """Named shallow rules; `pairs` are the questions and answers that lookups learn from."""
    rules = {**_copies(), **_grids(), **_lookups(pairs)}
    if task not in ARITHMETIC_IS_THE_TASK:
        rules |= _arithmetic()
    if task == "propositional_logic":
        rules |= _conclusions()
    return rules


@lru_cache(PARSED_QUESTIONS)
def _numbers(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\d+(?:\.\d+)?", text))


@lru_cache(PARSED_QUESTIONS)
def _tokens(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+|[^\w\s]", text))


def _pick(items: Sequence[str], place: int) -> str | None:
    return items[place] if -len(items) <= place < len(items) else None


def _copies() -> dict[str, Heuristic]:
    rules: dict[str, Heuristic] = {
        "copy the whole question": str,
        "largest number": lambda text: max(_numbers(text), key=float, default=None),
        "smallest number": lambda text: min(_numbers(text), key=float, default=None),
        "count of numbers": lambda text: str(len(_numbers(text))),
        "copy the fraction": lambda text: "/".join(_numbers(text)[:2]),
        "fraction without last digits": lambda text: "/".join(
            number[:-1] for number in _numbers(text)[:2]
        ),
    }
    for place in (*range(8), *range(-8, 0)):
        rules[f"copy number {place}"] = partial(_copy, _numbers, place)
        rules[f"copy word {place}"] = partial(_copy, str.split, place)
        rules[f"copy line {place}"] = partial(_copy, str.splitlines, place)
        rules[f"reverse number {place}"] = partial(_copy, _reversed_numbers, place)
    return rules


def _copy(split: Callable[[str], Sequence[str]], place: int, text: str) -> str | None:
    return _pick(split(text), place)


def _reversed_numbers(text: str) -> list[str]:
    return [number[::-1] for number in _numbers(text)]


def _arithmetic() -> dict[str, Heuristic]:
    return {
        f"number {first} {'+' if sign > 0 else '-'} number {second}": partial(
            _sum, first, second, sign
        )
        for first, second in permutations((0, 1, 2, -1, -2), 2)
        for sign in (1, -1)
    }


def _sum(first: int, second: int, sign: int, text: str) -> str | None:
    left, right = _pick(_numbers(text), first), _pick(_numbers(text), second)
    if left is None or right is None or "." in left + right:
        return None
    return str(int(left) + sign * int(right))


def _grids() -> dict[str, Heuristic]:
    def rows(text: str) -> list[str]:
        return [line for line in text.splitlines() if re.fullmatch(r"[\d ]+", line.strip())]

    def outputs(text: str, place: int) -> str | None:
        found = re.findall(r"Output: ([\d ]+)", text)
        return _pick(found, place)

    return {
        "copy the grid": lambda text: "\n".join(rows(text)),
        "grid of zeros": lambda text: re.sub(r"\d", "0", "\n".join(rows(text))),
        "grid of ones": lambda text: re.sub(r"\d", "1", "\n".join(rows(text))),
        "negated grid": lambda text: "\n".join(rows(text)).translate(str.maketrans("01", "10")),
        "reversed grid": lambda text: "\n".join(rows(text))[::-1],
        "grid with 2 for 1": lambda text: "\n".join(rows(text)).replace("1", "2"),
        "first output": lambda text: outputs(text, 0),
        "last output": lambda text: outputs(text, -1),
        "sorted grid": lambda text: " ".join(sorted("\n".join(rows(text)).split())),
    }


def _lookups(pairs: Sequence[tuple[str, str]]) -> dict[str, Heuristic]:
    """The commonest answer of the sample among questions that share a token or another feature."""
    rules = {
        f"commonest answer by token {place}": _lookup(pairs, partial(_token, place))
        for place in (*range(LOOKUP_TOKENS), *range(-LOOKUP_TOKENS, 0))
    }
    rules["commonest answer by length"] = _lookup(pairs, lambda text: str(len(text)))
    rules["commonest answer by negations"] = _lookup(pairs, lambda text: str(text.count("¬")))
    return rules


def _token(place: int, text: str) -> str | None:
    return _pick(_tokens(text), place)


def _lookup(pairs: Sequence[tuple[str, str]], feature: Callable[[str], str | None]) -> Heuristic:
    counts: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    for text, answer in pairs:
        counts[feature(text)][answer] += 1
    commonest: Mapping[str | None, str] = {
        value: answers.most_common(1)[0][0] for value, answers in counts.items()
    }
    return lambda text: commonest.get(feature(text))


def _conclusions() -> dict[str, Heuristic]:
    """Copies and joins of premises, and the question's literals with signs copied or flipped."""
    rules: dict[str, Heuristic] = {
        f"premise {place}": partial(_copy, _premises, place) for place in range(8)
    }
    for (first, second), operator in product(combinations(range(8), 2), "∧∨→"):
        rules[f"premise {first} {operator} premise {second}"] = partial(
            _joined, _premises, first, second, operator
        )
    rules["all premises"] = lambda text: " ∧ ".join(f"({one})" for one in _premises(text))
    rules["all bare premises"] = lambda text: " ∧ ".join(_facts(text))
    rules["signs of the letters asked for"] = _asked_literals
    rules["flipped signs of the letters asked for"] = lambda text: _flipped(_asked_literals(text))
    rules["signs of the facts"] = _fact_signs
    rules["flipped signs of the facts"] = lambda text: _flipped(_fact_signs(text))
    return rules


def _joined(
    split: Callable[[str], Sequence[str]], first: int, second: int, operator: str, text: str
) -> str | None:
    left, right = _pick(split(text), first), _pick(split(text), second)
    return None if left is None or right is None else f"({left} {operator} {right})"


def _premises(text: str) -> list[str]:
    """The statements of a question of either level."""
    _, _, listed = text.partition("Given: ")
    return listed.partition(". ")[0].split("; ") if listed else re.findall(r"\d\. (.+)", text)


def _facts(text: str) -> list[str]:
    return [premise for premise in _premises(text) if len(premise) <= 2]


def _asked(text: str) -> list[str]:
    """The literals of letters that no fact is about, as they are written."""
    known = {fact[-1] for fact in _facts(text)}
    written = re.findall(r"¬?[A-Z]", " ".join(_premises(text)))
    return list(dict.fromkeys(literal for literal in written if literal[-1] not in known))


def _asked_literals(text: str) -> str:
    return " ∧ ".join(_asked(text))


def _fact_signs(text: str) -> str:
    pairs = zip(_facts(text), _asked(text), strict=False)
    return " ∧ ".join(fact[:-1] + literal[-1] for fact, literal in pairs)


def _flipped(literals: str) -> str:
    return re.sub(r"¬?[A-Z]", lambda found: found[0][1:] or f"¬{found[0]}", literals)
