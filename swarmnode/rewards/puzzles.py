"""Puzzles that have several right answers: whether an answer keeps the puzzle's rules.

Each verifier reads the whole answer in one fixed notation, the one that the question asks for, and
plays it through; nothing is evaluated, recursed or searched for, and what does not fit the notation
is wrong. They know the puzzle's data out of the question's regeneration (swarmnode/tasks/native.py
lists the keys), no peer's words but the answer.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from swarmnode.rewards.same_answer import Metadata, normal_form, same_answer

_ASSIGNMENT = re.compile(r"([A-Z]) ?= ?([0-9])")
_JUG_MOVE = re.compile(r'"(?:(fill|empty) ([A-Z])|pour ([A-Z])->([A-Z]))"')
_DISK_MOVE = re.compile(r"Move disk ([0-9]{1,2}) from Peg ([0-9]{1,2}) to Peg ([0-9]{1,2})")
_STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
_BLANKS = " \t\r\n"


def cryptarithm(given: str, answer: str, metadata: Metadata) -> float:
    """Each letter of the sum has one digit of its own, no number begins with 0, the sum holds."""
    pairs = [_ASSIGNMENT.fullmatch(part.strip(_BLANKS)) for part in given.split(",")]
    digits = {pair[1]: pair[2] for pair in pairs if pair}
    numbers: list[str] = [*_data(metadata, "words"), _data(metadata, "result")]
    every_letter_once = set(digits) == set("".join(numbers)) and len(digits) == len(pairs)
    if not every_letter_once or len(set(digits.values())) < len(digits):
        return 0.0
    written = ["".join(digits[letter] for letter in word) for word in numbers]
    *summands, total = map(int, written)
    return float(sum(summands) == total and not any(one.startswith("0") for one in written))


def jugs(given: str, answer: str, metadata: Metadata) -> float:
    """A list of moves after which some jug holds the target."""
    listed = given.strip(_BLANKS)
    if not (listed.startswith("[") and listed.endswith("]")):
        return 0.0
    capacities: list[int] = _data(metadata, "capacities")
    names = [chr(ord("A") + place) for place in range(len(capacities))]
    size = dict(zip(names, capacities, strict=True))
    held = dict.fromkeys(names, 0)
    for part in listed[1:-1].split(","):
        move = _JUG_MOVE.fullmatch(part.strip(_BLANKS))
        if move is None or not {name for name in move.groups()[1:] if name} <= size.keys():
            return 0.0
        kind, jug, source, target = move.groups()
        if kind:
            held[jug] = size[jug] if kind == "fill" else 0
        elif source != target:
            poured = min(held[source], size[target] - held[target])
            held[source] -= poured
            held[target] += poured
    return float(_data(metadata, "target") in held.values())


def kakurasu(given: str, answer: str, metadata: Metadata) -> float:
    """A grid of 0 and 1 whose rows and columns have the sums asked for, by place."""
    rows = [line.split(" ") for line in normal_form(given).split("\n")]
    row_sums, column_sums = _data(metadata, "row_sums"), _data(metadata, "column_sums")
    shaped = len(rows) == len(row_sums) and all(len(row) == len(column_sums) for row in rows)
    if not shaped or not {cell for row in rows for cell in row} <= {"0", "1"}:
        return 0.0
    columns = list(zip(*rows, strict=True))
    return float(
        [_weight(row) for row in rows] == row_sums
        and [_weight(column) for column in columns] == column_sums
    )


def _weight(cells: Any) -> int:
    return sum(place for place, cell in enumerate(cells, start=1) if cell == "1")


def palindrome(given: str, answer: str, metadata: Metadata) -> float:
    """The letters of the question, each as often as there, the same read backwards."""
    word = normal_form(given)
    return float(word == word[::-1] and sorted(word) == sorted(_data(metadata, "letters")))


def shortest_path(given: str, answer: str, metadata: Metadata) -> float:
    """A way through open cells from * to # with as many steps as the reference."""
    if same_answer(given, answer, metadata):
        return 1.0
    matrix: list[list[str]] = _data(metadata, "matrix")
    steps = normal_form(given).split(" ")
    if len(steps) != len(answer.split()) or not set(steps) <= _STEPS.keys():
        return 0.0
    cells = {
        (row, column): cell
        for row, line in enumerate(matrix)
        for column, cell in enumerate(line)
        if cell != "X"
    }
    row, column = next(place for place, cell in cells.items() if cell == "*")
    for step in steps:
        row, column = row + _STEPS[step][0], column + _STEPS[step][1]
        if (row, column) not in cells:
            return 0.0
    return float(cells[row, column] == "#")


def hanoi(given: str, answer: str, metadata: Metadata) -> float:
    """Allowed moves that bring all disks to the target, no more of them than the reference has."""
    lines = [line.strip(_BLANKS) for line in given.strip(_BLANKS).split("\n")]
    disks, start = _data(metadata, "disks"), _data(metadata, "start")
    pegs: dict[int, list[int]] = {peg: [] for peg in range(1, _data(metadata, "pegs") + 1)}
    pegs[start] = list(range(disks, 0, -1))
    if len(lines) > len(answer.split("\n")):
        return 0.0
    for line in lines:
        move = _DISK_MOVE.fullmatch(line)
        if move is None:
            return 0.0
        disk, source, target = map(int, move.groups())
        if not {source, target} <= pegs.keys() or pegs[source][-1:] != [disk]:
            return 0.0
        pegs[target].append(pegs[source].pop())
        if any(below < above for below, above in pairwise(pegs[target])):
            return 0.0
    return float(len(pegs[_data(metadata, "goal")]) == disks)


def _data(metadata: Metadata, key: str) -> Any:
    """A part of the puzzle, whose types are the contract's."""
    return metadata[key]
