"""MTLD on words: golden values of lexicalrichness 0.5.1, and its edges.

The values come from `LexicalRichness(" ".join(words), preprocessor=None,
tokenizer=str.split).mtld(threshold=0.72)` on the words that `words_of` finds.
"""

from __future__ import annotations

import random

import pytest

from swarmnode.scheduling.mtld import mtld, relative, words_of

PROSE = (
    "It was late when the ferry came in. The harbour lights were on, the men on the quay stood"
    " with their hands in their pockets, and nobody said a word. The ferry had been late every"
    " night that week; the wind was in the west, and the captain was a careful man. When the ropes"
    " were fast the men went down to the water, one after the other, and took the boxes from the"
    " deck. There were forty boxes, and in every box there were forty bottles, and in every bottle"
    " there was a letter. Nobody knew who had written the letters, and nobody asked."
)
CODE = (
    "def add(a, b): return a + b\ndef sub(a, b): return a - b\nfor i in range(10): print(add(i,"
    " 1)); print(sub(i, 1))\nfor i in range(20): print(add(i, 2)); print(sub(i, 2))\nif a:"
    " print(a)\nif b: print(b)\nwhile a: a = sub(a, b)"
)

EXACTLY = " ".join(
    [*(f"a{n}" for n in range(18)), *(f"a{n}" for n in range(7)), *(f"b{n}" for n in range(10))]
)
"""18 types in 25 words are a ratio of 0.72 itself, and complete a factor."""


def drawn_words() -> str:
    rng = random.Random(7)
    return " ".join(f"w{int(rng.paretovariate(0.7)) % 400}" for _ in range(1500))


@pytest.mark.parametrize(
    ("text", "golden"),
    [
        (PROSE, 45.35243741765481),
        (CODE, 9.257142857142858),
        (drawn_words(), 5.254343345111897),
        ("same " * 50, 2.0),
        (" ".join(f"w{n}" for n in range(40)), 40.0),
        ("the cat and the dog", 7.000000000000002),
        (EXACTLY, 42.00000000000001),
    ],
)
def test_it_agrees_with_a_published_library(text: str, golden: float) -> None:
    assert mtld(words_of(text)) == pytest.approx(golden, rel=1e-12)


def test_words_are_lower_case_without_punctuation() -> None:
    assert words_of("Don't STOP: it’s 3.14, über_alles!") == [
        "don't",
        "stop",
        "it’s",
        "3",
        "14",
        "über",
        "alles",
    ]
    assert mtld(words_of("...")) == 0.0


def test_relative_diversity_is_cut_to_between_one_repeated_word_and_the_limit() -> None:
    assert [relative(value, 102.0) for value in (0.0, 2.0, 52.0, 500.0)] == [0.0, 0.0, 0.5, 1.0]
