"""Which other tasks of reasoning-gym may be asked, and why each of the rest may not.

An allow-list: a task is enabled only after an audit of its code and a run under two hash seeds,
with far indices and nonsense answers. Data only.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DEFAULT = "default"
"""Their one level, which has reasoning-gym's own parameters."""

_EVALUATES = "its scorer evaluates the answer as Python code"
_PARSES = "its scorer hands the answer to sympy's parse_expr, which evaluates it as Python code"
_EVALUATES_ENTRY = "its scorer evaluates text of the question's entry as Python code"
_NO_ANSWER = "it stores no reference answer, so there is nothing to warm-start on or to compare"
_FINITE = "it has a fixed list of questions, so that a key's stream would run out"
_UNSTABLE = "its questions differ from process to process, so that peers could not regenerate them"
_NONSENSE = "its scorer gives full marks to text that solves nothing"
_SLOW = "one question takes up to seconds to make, longer than the scorer waits for a group"
_READS_FILES = "it reads packaged files for every question, which the locked scorer process may not"

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "acre": _FINITE,
        "arc_agi": _READS_FILES,
        "bitwise_arithmetic": _EVALUATES_ENTRY,
        "boxnet": _NO_ANSWER,
        "caesar_cipher": _READS_FILES,
        "codeio": "it executes packaged code to make its questions",
        "coin_flip": _NONSENSE,
        "complex_arithmetic": _NONSENSE,
        "composite": "it only forwards to other tasks; name those",
        "countdown": _PARSES,
        "emoji_mystery": _READS_FILES,
        "figlet_font": _READS_FILES,
        "futoshiki": _SLOW,
        "game_of_life_halting": _NONSENSE,
        "graph_color": _NO_ANSWER,
        "group_anagrams": _READS_FILES,
        "gsm_symbolic": _FINITE,
        "intermediate_integration": _PARSES + " and takes seconds for one answer",
        "isomorphic_strings": _UNSTABLE,
        "knight_swap": _UNSTABLE,
        "letter_counting": _READS_FILES,
        "letter_jumble": _READS_FILES,
        "list_functions": _FINITE,
        "n_queens": _EVALUATES,
        "number_sorting": _EVALUATES_ENTRY,
        "polynomial_multiplication": _PARSES,
        "pool_matrix": "it cannot be seeded with the 63 bits of a question stream",
        "puzzle24": _PARSES,
        "quantum_lock": _SLOW,
        "ransom_note": _UNSTABLE,
        "rubiks_cube": _NO_ANSWER,
        "rush_hour": _NO_ANSWER,
        "sentence_reordering": _READS_FILES,
        "simple_integration": _PARSES,
        "sokoban": _SLOW,
        "spell_backward": _READS_FILES,
        "spiral_matrix": _EVALUATES,
        "string_insertion": _EVALUATES,
        "word_ladder": _FINITE,
        "word_sequence_reversal": _READS_FILES,
        "word_sorting": _READS_FILES,
    }
)
"""Why a task of reasoning-gym is not enabled, by its name."""

ENABLED = frozenset(
    {
        "ab",
        "advanced_geometry",
        "aiw",
        "binary_alternation",
        "chain_sum",
        "circuit_logic",
        "color_cube_rotation",
        "count_bits",
        "count_primes",
        "course_schedule",
        "cryptarithm",
        "decimal_chain_sum",
        "dice",
        "family_relationships",
        "game_of_life",
        "gcd",
        "jugs",
        "kakurasu",
        "knights_knaves",
        "largest_island",
        "lcm",
        "leg_counting",
        "mahjong_puzzle",
        "manipulate_matrix",
        "maze",
        "mini_sudoku",
        "modulo_grid",
        "needle_haystack",
        "number_filtering",
        "number_format",
        "number_sequence",
        "palindrome_generation",
        "palindrome_partitioning",
        "path_star",
        "polynomial_equations",
        "power_function",
        "prime_factorization",
        "products",
        "rearc",
        "rectangle_count",
        "rotate_matrix",
        "rotten_oranges",
        "self_reference",
        "shortest_path",
        "simple_equations",
        "simple_geometry",
        "string_manipulation",
        "string_splitting",
        "string_synthesis",
        "sudoku",
        "survo",
        "syllogism",
        "time_intervals",
        "tower_of_hanoi",
        "tsumego",
        "zebra_puzzles",
    }
)
"""Tasks that exist at level default."""
