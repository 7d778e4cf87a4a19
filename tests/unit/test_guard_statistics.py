"""The figures that guard-rails are made of, on texts whose figures are known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from scipy.stats import spearmanr

from swarmnode.guard_rails.statistics import (
    above_constants,
    centred_ranks,
    compression_ratio,
    distinct_over_questions,
    distinct_share,
    reward_length_correlation,
    round_statistics,
    sampled_entropy,
    script_of,
    whitespace_shares,
)
from swarmnode.tasks import baseline
from swarmnode.types import Completion, FinishReason, Group, PolicyInfo, Question, Scored

PROSE = "The quick brown fox jumps over the lazy dog while nine other animals look on. " * 4


def completion(
    text: str = "4",
    ids: Sequence[int] = (1, 2),
    logprobs: Sequence[float] | None = None,
    finish: FinishReason = "stop",
) -> Completion:
    known = None if logprobs is None else tuple(logprobs)
    return Completion(text, finish, len(ids), tuple(ids), known)


def scored(completions: Sequence[Completion], scores: Sequence[float] | None = None) -> Scored:
    question = Question("a", "easy", 0, "?", "4")
    group = Group(question, tuple(completions), b"", PolicyInfo("tiny", 0, b""))
    return Scored(group, tuple(scores or [0.0] * len(completions)), "local", 0.0)


def test_two_grams_of_like_answers_to_unlike_questions_are_not_distinct() -> None:
    same = [scored([completion(ids=(1, 2, 3))] * 2) for _ in range(4)]
    assert distinct_over_questions(same) == 0.25
    varied = [scored([completion(ids=(n, n + 1, n + 2))] * 2) for n in (10, 20, 30, 40)]
    # All answers to one question are alike, as right ones are: that alone is no collapse.
    assert distinct_over_questions(varied) == 1.0
    assert distinct_over_questions(varied[:1]) is None


def test_a_sequence_shorter_than_the_gram_is_a_gram() -> None:
    assert distinct_share([[1], [1], [2]], 2) == pytest.approx(2 / 3)
    assert distinct_share([[1, 2, 3], [1, 2]], 2) == pytest.approx(2 / 3)
    assert distinct_share([[1, 2]], 2) is None


def test_repeated_words_compress_far_better_than_prose_and_short_texts_have_no_ratio() -> None:
    generator = random.Random(0)
    words = " ".join("".join(generator.choices("abcdefghij", k=6)) for _ in range(60))
    looping, varied = compression_ratio("so so so " * 60), compression_ratio(words)
    assert looping is not None
    assert varied is not None
    assert looping > 10.0 > 2.4 > varied
    assert compression_ratio("so so so ") is None


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("the answer is 4", "latin"),
        ("답은 넷 4", "hangul"),
        ("答えは四です", "han"),
        ("ответ 4", "cyrillic"),
        ("الجواب 4", "arabic"),
        ("0 0 5\n5 0 0", ""),
        ("", ""),
    ],
)
def test_a_text_is_of_the_script_of_most_of_its_letters(text: str, script: str) -> None:
    assert script_of(text) == script


def test_whitespace_is_told_apart_by_script() -> None:
    hangul, latin = "가나다 라마바 " * 12, PROSE
    with_spaces = whitespace_shares([hangul, latin])
    dropped = whitespace_shares([hangul.replace(" ", "") * 2, latin])
    assert with_spaces["hangul"] == pytest.approx(23 / 95)
    assert dropped["hangul"] == 0.0
    assert dropped["latin"] == with_spaces["latin"] > 0.15
    assert whitespace_shares(["too short", "0 0 5 0 " * 20]) == {}


def test_success_is_held_against_the_best_constant_answer_where_that_is_known() -> None:
    def of(task: str, scores: Sequence[float]) -> Scored:
        made = scored([completion()] * len(scores), scores)
        question = Question(task, "easy", 0, "?", "4")
        return replace(made, group=replace(made.group, question=question))

    groups = [of("bf", (1.0, 0.0)), of("bf", (1.0, 1.0)), of("unknown", (1.0, 1.0))]
    constant = baseline("arc_1d", "easy")
    assert constant is not None
    found = above_constants([*groups, of("arc_1d", (0.0, 0.0))])
    assert found == {"arc_1d": -constant, "bf": 0.75}
    assert constant > 0.0


def test_entropy_is_that_of_the_sampled_tokens_of_all_answers() -> None:
    assert sampled_entropy([completion(logprobs=(-1.0, -2.0)), completion()]) == 1.5
    assert sampled_entropy([completion()]) is None


def test_success_and_length_are_compared_within_their_group_alone() -> None:
    def group(lengths: Sequence[int], scores: Sequence[float]) -> Scored:
        return scored([completion(ids=range(length)) for length in lengths], scores)

    longer = group((1, 2, 3, 4), (0.0, 0.0, 1.0, 1.0))
    expected = spearmanr((1, 2, 3, 4), (0, 0, 1, 1)).statistic
    assert reward_length_correlation([longer]) == pytest.approx(expected)
    # Long hard questions against short easy ones say nothing about answers to one question.
    easy, hard = group((1, 1, 1), (1.0, 1.0, 0.0)), group((9, 9, 9), (0.0, 0.0, 1.0))
    assert reward_length_correlation([easy, hard]) is None
    assert reward_length_correlation([longer, easy]) == pytest.approx(expected)
    opposite = group((4, 3, 2, 1), (0.0, 0.0, 1.0, 1.0))
    assert reward_length_correlation([longer, opposite]) == pytest.approx(0.0)


def test_ranks_share_their_mean_where_values_are_equal_and_are_centred() -> None:
    assert centred_ranks([3.0, 1.0, 3.0, 2.0]) == [1.0, -1.5, 1.0, -0.5]
    assert centred_ranks([]) == []


def test_a_rounds_figures_are_those_that_have_a_meaning_in_it() -> None:
    answers = [
        completion("4", (5, 6, 5, 6, 5, 6, 5), (-1.0,) * 7),
        completion("5", (7,), (-1.0,), "length"),
    ]
    figures = round_statistics([scored(answers, (1.0, 0.0))])
    assert figures == {
        "repetition": pytest.approx((0.5 + 0.0) / 2),
        "length": 4.0,
        "truncated": 0.5,
        "entropy": 1.0,
        "reward_length": pytest.approx(1.0),
    }
    assert round_statistics([]) == {}
