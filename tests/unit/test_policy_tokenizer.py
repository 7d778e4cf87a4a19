"""The phrase tokenizer: lossless on any text, blind to special tokens, the same everywhere."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.policy.build_vocabulary import build_vocabulary
from swarmnode.policy.tokenizer import ANSWER_ID, END_ID, PAD_ID, PhraseTokenizer

TOKENIZER = PhraseTokenizer.load()
SPECIAL = {PAD_ID, END_ID, ANSWER_ID}
UNICODE_TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(UNICODE_TEXT)
def test_any_unicode_text_survives_encoding(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(UNICODE_TEXT)
def test_no_text_encodes_to_a_special_token(text: str) -> None:
    assert SPECIAL.isdisjoint(TOKENIZER.encode(text))


@given(st.lists(st.integers(0, len(TOKENIZER) - 1)))
def test_any_ids_decode_to_text_that_utf8_can_carry(ids: list[int]) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(TOKENIZER.decode(ids))) == TOKENIZER.decode(ids)
    TOKENIZER.decode(ids).encode()


def test_special_tokens_leave_no_text() -> None:
    assert TOKENIZER.decode([PAD_ID, *TOKENIZER.encode("12"), ANSWER_ID, END_ID]) == "12"


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("a\ud800b")) == "a�b"


def test_every_digit_is_a_token_of_its_own() -> None:
    ids = TOKENIZER.encode(string.digits)
    assert [TOKENIZER.decode([token]) for token in ids] == list(string.digits)


@pytest.mark.parametrize(
    ("question", "most"),
    [
        ("Calculate 17 + 4.", 6),
        (
            "Simplify the fraction 6/21 to its lowest terms. "
            "Give only the simplified fraction as your final answer.",
            6,
        ),
        (
            "Your task is to convert a number between two different bases.\n\n"
            "If the target base is > 10, use lowercase letters a-z for digits above 9.\n\n"
            "Now, convert the base-3 number 2012 to base-4\n",
            18,
        ),
        (
            "Given a square matrix, your job is to find the taxicab (Manhattan) distance of the "
            "nearest 0 for each cell.\n\nThe output should be a matrix of the same size as the "
            "input matrix, where each cell contains the distance to the nearest 0.\n\n"
            "Find the distance to the nearest 0 for each cell in the matrix below:\n0 1\n1 1\n",
            14,
        ),
    ],
)
def test_templates_are_phrases(question: str, most: int) -> None:
    assert len(TOKENIZER.encode(question)) <= most


def test_the_longest_phrase_wins() -> None:
    tokenizer = PhraseTokenizer(["a", "ab", "abc", "d"])
    assert [tokenizer.decode([token]) for token in tokenizer.encode("abcdab")] == ["abc", "d", "ab"]


def test_encoding_time_grows_in_a_line() -> None:
    almost = "Your task is to convert a number between two different bases.\n\nIf the target bas"
    seconds = []
    for repeats in (50, 400):
        start = time.process_time()
        TOKENIZER.encode(almost * repeats)
        seconds.append(time.process_time() - start)
    assert seconds[1] < 8 * 6 * seconds[0] + 0.05


def test_the_fingerprint_follows_the_vocabulary() -> None:
    prints = {
        PhraseTokenizer(tokens).fingerprint() for tokens in (["a", "b"], ["b", "a"], ["ab"], ["a"])
    }
    assert len(prints) == 4
    assert TOKENIZER.fingerprint() == PhraseTokenizer.load().fingerprint()
    assert len(TOKENIZER.fingerprint()) == 32


@pytest.mark.parametrize("tokens", [["a", "a"], ["a", ""]])
def test_a_vocabulary_with_repeated_or_empty_tokens_is_refused(tokens: list[str]) -> None:
    with pytest.raises(ValueError, match="distinct"):
        PhraseTokenizer(tokens)


def test_the_builder_fuses_templates_and_leaves_answers_in_pieces() -> None:
    samples = [
        ("sums", f"How much is {a} plus {b}, in total?", str(a + b))
        for a in range(8)
        for b in range(8)
    ]
    tokens = build_vocabulary(samples)
    assert "How much is " in tokens
    assert ", in total?" in tokens
    assert {token for token in tokens if any(digit in token for digit in string.digits)} == {
        *string.digits,
        *(f" {digit}" for digit in string.digits),
    }
    assert build_vocabulary(list(reversed(samples))) == tokens
