"""The verifiers of reasoning-gym's other tasks: which forms and which other solutions they take."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from swarmnode.rewards import verify

CRYPTARITHM = {"words": ["AB", "C"], "result": "DE"}  # AB + C = DE
JUGS = {"capacities": [3, 5], "target": 4}
KAKURASU = {"row_sums": [3, 2], "column_sums": [1, 3]}
PALINDROME = {"letters": ["a", "b", "a", "b"]}
MAZE = {"matrix": [["*", "O", "X"], ["O", "O", "#"], ["X", "O", "O"]]}
HANOI = {"disks": 2, "pegs": 3, "start": 1, "goal": 3}
ISLAND = "Al is a fool, and Bo is an elf."
MEASURED = '["fill B", "pour B->A", "empty A", "pour B->A", "fill B", "pour B->A"]'
SMALL, LARGE = "Move disk 1 from Peg", "Move disk 2 from Peg"
SOLVED = f"{SMALL} 1 to Peg 2\n{LARGE} 1 to Peg 3\n{SMALL} 2 to Peg 3"


@pytest.mark.parametrize(
    ("task", "answer", "metadata", "given", "score"),
    [
        ("gcd", "12", {}, "12", 1.0),
        ("gcd", "12", {}, "+12.0", 1.0),
        ("gcd", "12", {}, "1.2e1", 1.0),
        ("gcd", "1200", {}, "1,200.", 1.0),
        ("gcd", "1200", {}, "12,00", 0.0),
        ("gcd", "1200", {}, "1 200", 0.0),
        ("gcd", "12", {}, "１２", 0.0),
        ("gcd", "12", {}, "1_2", 0.0),
        ("gcd", "12", {}, "12 or 13", 0.0),
        ("gcd", "-1", {}, "−1", 0.0),
        ("count_primes", "7", {}, "7" + "0" * 30, 0.0),
        ("syllogism", "Yes", {}, "yes.", 1.0),
        ("syllogism", "Yes", {}, "Yes No", 0.0),
        ("color_cube_rotation", "black", {}, "blac\u212a", 0.0),
        ("rotate_matrix", "1 2\n3 4", {}, "1  2 \n\n 3 4", 1.0),
        ("rotate_matrix", "1 2\n3 4", {}, "1 2 3 4", 0.0),
        ("rotate_matrix", "1 2\n3 4", {}, "12\n34", 0.0),
        ("game_of_life", "[[0,1],[1,0]]", {}, "[[0, 1],\n [1, 0]]", 1.0),
        ("game_of_life", "[[0,1],[1,0]]", {}, "[[0,1],[1,0],[0,0]]", 0.0),
        ("knights_knaves", ISLAND, {}, "Bo is an elf, Al is a fool", 1.0),
        ("knights_knaves", ISLAND, {}, "Al is a fool and Bo is an elf", 1.0),
        ("knights_knaves", ISLAND, {}, "Al is a fool, Al is a fool", 0.0),
        ("knights_knaves", ISLAND, {}, "Al is a fool", 0.0),
        ("prime_factorization", "2 × 2 × 3", {}, "3×2×2", 1.0),
        ("prime_factorization", "2 × 2 × 3", {}, "2 × 3", 0.0),
        ("prime_factorization", "2 × 2 × 3", {}, "12", 0.0),
        ("palindrome_partitioning", '[["a", "a"], ["aa"]]', {}, '[["aa"],["a","a"]]', 1.0),
        ("palindrome_partitioning", '[["a", "a"], ["aa"]]', {}, '[["aa"],["aa"]]', 0.0),
        ("palindrome_partitioning", '[["a", "a"], ["aa"]]', {}, '["aa","aa"]', 0.0),
        ("polynomial_equations", "-1.5, 0.0", {}, "0, -1.5001", 1.0),
        ("polynomial_equations", "-1.5, 0.0", {}, "0, -1.5002", 0.0),
        ("polynomial_equations", "-1.5, 0.0", {}, "-1.5", 0.0),
        ("polynomial_equations", "-1.5, 0.0", {}, "-1.5, 0, 0", 0.0),
        ("polynomial_equations", "0.0", {}, "x", 0.0),
        ("number_format", "1234.5699999", {}, "1,234.57", 1.0),
        ("number_format", "1234.5699999", {}, "1234.58", 0.0),
        ("power_function", "1.4981727e+19", {}, "1.50e+19", 1.0),
        ("power_function", "1.4981727e+19", {}, "1.49e+19", 0.0),
        ("power_function", "1.4981727e+19", {}, "NaN", 0.0),
        ("cryptarithm", "A=1,B=9,C=4,D=2,E=3", CRYPTARITHM, "D=3, E=1, A=2, B=6, C=5", 1.0),
        ("cryptarithm", "A=1,B=9,C=4,D=2,E=3", CRYPTARITHM, "A=1,B=9,C=4,D=2,E=4", 0.0),
        ("cryptarithm", "A=1,B=9,C=4,D=2,E=3", CRYPTARITHM, "A=0,B=9,C=4,D=1,E=3", 0.0),
        ("cryptarithm", "A=1,B=9,C=4,D=2,E=3", CRYPTARITHM, "A=7,A=1,B=9,C=4,D=2,E=3", 0.0),
        ("cryptarithm", "A=1,B=9,C=4,D=2,E=3", CRYPTARITHM, "A=1,B=2,C=1,D=1,E=3", 0.0),
        ("cryptarithm", "A=1,B=9,C=4,D=2,E=3", CRYPTARITHM, "A=1,B=9,C=4,D=2,E=3,F=5", 0.0),
        ("jugs", "[]", JUGS, MEASURED, 1.0),
        ("jugs", "[]", JUGS, MEASURED.replace(", ", ",\n"), 1.0),
        ("jugs", "[]", JUGS, MEASURED[:-14] + "]", 0.0),
        ("jugs", "[]", JUGS, MEASURED.replace("]", ', "fill C"]'), 0.0),
        ("jugs", "[]", JUGS, MEASURED.replace("fill B", "fill B now"), 0.0),
        ("jugs", "[]", JUGS, MEASURED[1:-1], 0.0),
        ("jugs", "[]", JUGS, '["pour B->B"]', 0.0),
        ("kakurasu", "1 1\n0 1", KAKURASU, " 1 1\n0  1", 1.0),
        ("kakurasu", "1 1\n0 1", KAKURASU, "1 1\n1 0", 0.0),
        ("kakurasu", "1 1\n0 1", KAKURASU, "1 1\n0 1\n0 0", 0.0),
        ("kakurasu", "1 1\n0 1", KAKURASU, "1 1\n2 1", 0.0),
        ("kakurasu", "1 1\n0 1", KAKURASU, "11\n01", 0.0),
        ("palindrome_generation", "abba", PALINDROME, "BAAB", 1.0),
        ("palindrome_generation", "abba", PALINDROME, "aa", 0.0),
        ("palindrome_generation", "abba", PALINDROME, "abab", 0.0),
        ("shortest_path", "down right right", MAZE, "right down right", 1.0),
        ("shortest_path", "down right right", MAZE, "down down up right right", 0.0),
        ("shortest_path", "down right right", MAZE, "right right down", 0.0),
        ("shortest_path", "down right right", MAZE, "up down right", 0.0),
        ("shortest_path", "infeasible", {"matrix": [["*", "X", "#"]]}, "infeasible", 1.0),
        ("shortest_path", "infeasible", {"matrix": [["*", "X", "#"]]}, "right", 0.0),
        ("tower_of_hanoi", SOLVED, HANOI, SOLVED, 1.0),
        ("tower_of_hanoi", SOLVED, HANOI, SOLVED.replace("\n", " \n "), 1.0),
        ("tower_of_hanoi", SOLVED, HANOI, SOLVED.replace("1", "１"), 0.0),
        ("tower_of_hanoi", SOLVED, HANOI, SOLVED.rpartition("\n")[0], 0.0),
        ("tower_of_hanoi", SOLVED, HANOI, SOLVED + f"\n{SMALL} 3 to Peg 3", 0.0),
        ("tower_of_hanoi", SOLVED, HANOI, SOLVED.replace("2 from Peg 1", "2 from Peg 9"), 0.0),
        ("tower_of_hanoi", SOLVED, HANOI, f"{SMALL} 1 to Peg 3\n{LARGE} 1 to Peg 3", 0.0),
    ],
)  # fmt: skip
def test_an_answer_is_taken_in_the_form_and_by_the_rules_of_its_question(
    task: str, answer: str, metadata: Mapping[str, object], given: str, score: float
) -> None:
    assert verify(task, answer, metadata, given) == score
