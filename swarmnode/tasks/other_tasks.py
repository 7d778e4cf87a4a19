"""Which other tasks of reasoning-gym may be asked, and why each of the rest may not.

An allow-list: a task is enabled only after an audit (security.md section 2, and a run of every
dataset under two hash seeds, with far indices and nonsense answers). Data only.
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

REFUSED: Mapping[str, str] = MappingProxyType(
    {
        "acre": _FINITE,
        "bitwise_arithmetic": _EVALUATES_ENTRY,
        "boxnet": _NO_ANSWER,
        "codeio": "it executes packaged code to make its questions",
        "coin_flip": _NONSENSE,
        "complex_arithmetic": _NONSENSE,
        "composite": "it only forwards to other tasks; name those",
        "countdown": _PARSES,
        "game_of_life_halting": _NONSENSE,
        "graph_color": _NO_ANSWER,
        "gsm_symbolic": _FINITE,
        "intermediate_integration": _PARSES + " and takes seconds for one answer",
        "isomorphic_strings": _UNSTABLE,
        "knight_swap": _UNSTABLE,
        "list_functions": _FINITE,
        "n_queens": _EVALUATES,
        "number_sorting": _EVALUATES_ENTRY,
        "polynomial_multiplication": _PARSES,
        "pool_matrix": "it cannot be seeded with the 63 bits of a question stream",
        "puzzle24": _PARSES,
        "ransom_note": _UNSTABLE,
        "rubiks_cube": _NO_ANSWER,
        "rush_hour": _NO_ANSWER,
        "simple_integration": _PARSES,
        "spiral_matrix": _EVALUATES,
        "string_insertion": _EVALUATES,
        "word_ladder": _FINITE,
    }
)
"""Why a task of reasoning-gym is not enabled, by its name."""

ENABLED = frozenset(
    {
        "ab",
        "advanced_geometry",
        "aiw",
        "arc_agi",
        "binary_alternation",
        "caesar_cipher",
        "chain_sum",
        "circuit_logic",
        "color_cube_rotation",
        "count_bits",
        "count_primes",
        "course_schedule",
        "cryptarithm",
        "decimal_chain_sum",
        "dice",
        "emoji_mystery",
        "family_relationships",
        "figlet_font",
        "futoshiki",
        "game_of_life",
        "gcd",
        "group_anagrams",
        "jugs",
        "kakurasu",
        "knights_knaves",
        "largest_island",
        "lcm",
        "leg_counting",
        "letter_counting",
        "letter_jumble",
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
        "quantum_lock",
        "rearc",
        "rectangle_count",
        "rotate_matrix",
        "rotten_oranges",
        "self_reference",
        "sentence_reordering",
        "shortest_path",
        "simple_equations",
        "simple_geometry",
        "sokoban",
        "spell_backward",
        "string_manipulation",
        "string_splitting",
        "string_synthesis",
        "sudoku",
        "survo",
        "syllogism",
        "time_intervals",
        "tower_of_hanoi",
        "tsumego",
        "word_sequence_reversal",
        "word_sorting",
        "zebra_puzzles",
    }
)
"""Tasks that exist at level default."""
