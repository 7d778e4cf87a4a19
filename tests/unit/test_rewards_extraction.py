"""Where an answer is found, what is too long, and that hostile tags cost linear time."""

from __future__ import annotations

import time

import pytest

from swarmnode.rewards.extraction import COMPLETION_BYTES, extract_answer


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("  42\n", "42"),
        ("<answer>42</answer>", "42"),
        ("I think <answer> 4 2 </answer> is it", "4 2"),
        ("<answer>1</answer> no, <answer>2</answer>", "2"),
        ("<answer>1<answer>2</answer>", "2"),
        ("<answer></answer>", ""),
        ("<answer>1", "<answer>1"),
        ("1</answer>", "1</answer>"),
        ("</answer>1<answer>", "</answer>1<answer>"),
        ("<answer>1</answer><answer>2", "1"),
        ("", ""),
    ],
)
def test_the_last_closed_pair_encloses_the_answer_or_the_text_is_the_answer(
    completion: str, answer: str
) -> None:
    assert extract_answer(completion, 100) == answer


def test_an_answer_over_its_cap_is_none_and_at_its_cap_is_not() -> None:
    assert extract_answer("x" * 100, 100) == "x" * 100
    assert extract_answer("x" * 101, 100) is None
    assert extract_answer(f"<answer>{'x' * 101}</answer>", 100) is None


def test_caps_count_bytes_and_bear_lone_surrogates() -> None:
    assert extract_answer("¬" * 51, 100) is None
    assert extract_answer("\ud800" * 33, 100) == "\ud800" * 33
    assert extract_answer("\ud800" * 34, 100) is None


def test_a_completion_over_its_cap_has_no_answer_however_short_that_is() -> None:
    padding = COMPLETION_BYTES - len("<answer>1</answer>")
    assert extract_answer(" " * padding + "<answer>1</answer>", 100) == "1"
    assert extract_answer(" " * (padding + 1) + "<answer>1</answer>", 100) is None


@pytest.mark.parametrize("piece", ["<answer>", "</answer>", "<answer", "<answer></answer"])
def test_a_full_completion_of_tags_takes_a_few_milliseconds(piece: str) -> None:
    hostile = piece * (COMPLETION_BYTES // len(piece))
    started = time.perf_counter()
    for _ in range(10):
        extract_answer(hostile, 1024)
    # reasoning-gym's own extraction takes seconds for one of these.
    assert time.perf_counter() - started < 0.25
