"""Reward channels: success and its partial credit, lengths, format, repetition."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.config.channels import Channels
from swarmnode.rewards.channels import (
    Paid,
    accuracy,
    further_channels,
    one_answer_block,
    overlong,
    repeated_share,
    rewards,
    smooth_length,
    step_length,
)
from swarmnode.types import Completion, FinishReason, Group, PolicyInfo, Question, Scored


def completion(finish_reason: FinishReason = "stop") -> Completion:
    return Completion("1", finish_reason, 2)


@pytest.mark.parametrize(
    ("score", "reward"), [(1.0, 1.0), (0.99, 1.0), (0.9899, 0.0), (0.1, 0.0), (0.0, 0.0)]
)
def test_accuracy_is_success_alone_by_default(score: float, reward: float) -> None:
    assert accuracy(completion(), score) == reward


def test_partial_credit_pays_the_score_itself() -> None:
    assert accuracy(completion(), 0.1, partial_credit=True) == 0.1


@pytest.mark.parametrize("partial_credit", [False, True])
def test_a_truncated_completion_earns_nothing(partial_credit: bool) -> None:
    assert accuracy(completion("length"), 1.0, partial_credit=partial_credit) == 0.0


def test_the_rewards_of_a_group_are_in_the_order_of_its_completions() -> None:
    question = Question("bf", "easy", 0, "?", "1")
    completions = (completion(), completion(), completion("length"))
    group = Group(question, completions, bytes(32), PolicyInfo("tiny", 0, b""))
    scored = Scored(group, (0.5, 1.0, 1.0), "local", 0.0)
    assert rewards(scored) == (0.0, 1.0, 0.0) == (*scored.successes[:2], 0.0)
    assert rewards(scored, partial_credit=True) == (0.5, 1.0, 0.0)


@given(st.integers(0, 5000), st.integers(1, 2000), st.floats(0.05, 10.0))
def test_the_smooth_length_reward_is_bounded_and_never_jumps(
    tokens: int, target: int, tolerance: float
) -> None:
    here, beside = (smooth_length(each, target, tolerance) for each in (tokens, tokens + 1))
    assert 0.0 <= here <= smooth_length(target, target, tolerance) == 1.0
    assert abs(here - beside) <= math.exp(-0.5) / (tolerance * target) + 1e-12


def test_the_smooth_length_reward_pays_every_token_nearer_to_the_target_on_both_sides() -> None:
    paid = [smooth_length(tokens, 20, 0.5) for tokens in range(1, 61)]
    assert paid[:20] == sorted(paid[:20])
    assert paid[19:] == sorted(paid[19:], reverse=True)
    assert paid[29] == pytest.approx(math.exp(-0.5))


def test_the_step_says_nothing_to_completions_on_one_side_of_it() -> None:
    assert [step_length(tokens, 20) for tokens in (1, 20, 21, 90)] == [1.0, 1.0, 0.0, 0.0]


def test_the_overlong_penalty_grows_from_0_to_minus_1_over_the_soft_part() -> None:
    paid = [overlong(tokens, limit=100, soft=20) for tokens in (1, 80, 85, 90, 100, 101)]
    assert paid == [0.0, 0.0, -0.25, -0.5, -1.0, -1.0]
    assert [overlong(tokens, limit=100, soft=0) for tokens in (100, 101)] == [0.0, -1.0]


@pytest.mark.parametrize(
    ("text", "reward"),
    [
        ("<answer>4</answer>", 1.0),
        ("2 + 2, so <answer> 4 </answer>.", 1.0),
        ("4", 0.0),
        ("<answer></answer>", 0.0),
        ("<answer>4", 0.0),
        ("4</answer>", 0.0),
        ("</answer>4<answer>", 0.0),
        ("<answer>4</answer><answer>5</answer>", 0.0),
        ("<answer><answer>4</answer>", 0.0),
    ],
)
def test_the_format_is_exactly_one_block_with_something_in_it(text: str, reward: float) -> None:
    assert one_answer_block(text) == reward


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(1, 5))
def test_the_repeated_share_is_that_of_a_naive_count(items: list[int], n: int) -> None:
    seen: set[tuple[int, ...]] = set()
    again = 0
    for start in range(len(items) - n + 1):
        gram = tuple(items[start : start + n])
        again += gram in seen
        seen.add(gram)
    count = max(len(items) - n + 1, 0)
    assert repeated_share(items, n) == pytest.approx(again / count if count else 0.0)


def paid(text: str, tokens: int, success: bool = True, prompt: str = "2 + 2 =") -> Paid:
    return Paid(prompt, text, range(tokens), success)


def channels(**settings: Any) -> dict[str, tuple[float, ...]]:
    made = Channels.model_validate(settings)
    completions = [paid("4", 10), paid("<answer>4</answer>", 20, success=False)]
    return dict(further_channels(completions, made, limit_tokens=20))


def test_accuracy_alone_is_the_default() -> None:
    assert channels() == {}
    assert dict(Channels().weights) == {"accuracy": 1.0}


def test_only_channels_with_a_weight_are_made_and_carry_it() -> None:
    settings = {"length": {"weight": 0.5, "target_tokens": 10}, "overlong": {"weight": 2.0}}
    assert list(channels(**settings)) == ["length", "overlong"]
    assert dict(Channels.model_validate(settings).weights) == {
        "accuracy": 1.0,
        "length": 0.5,
        "overlong": 2.0,
    }


def test_each_channel_follows_its_settings() -> None:
    length = {"weight": 1.0, "target_tokens": 10, "tolerance": 1.0}
    assert channels(length=length)["length"] == pytest.approx((1.0, math.exp(-0.5)))
    assert channels(length={**length, "form": "step"})["length"] == (1.0, 0.0)
    assert channels(length={**length, "only_successes": True})["length"] == (1.0, 0.0)
    assert channels(overlong={"weight": 1.0})["overlong"] == (0.0, -1.0)
    limited = {"weight": 1.0, "limit_tokens": 12, "soft_share": 0.5}
    assert channels(overlong=limited)["overlong"] == pytest.approx((-4 / 6, -1.0))
    assert channels(repetition={"weight": 1.0})["repetition"] == (0.0, 0.0)


def test_a_format_is_rewarded_where_the_question_asks_for_it_or_always() -> None:
    given = channels(format={"weight": 1.0})["format"]
    assert all(math.isnan(each) for each in given)
    assert channels(format={"weight": 1.0, "wanted": "always"})["format"] == (0.0, 1.0)
    asked = [paid("4", 1, prompt="Put it into <answer> tags.")]
    made = Channels.model_validate({"format": {"weight": 1.0}})
    assert dict(further_channels(asked, made, 20)) == {"format": (0.0,)}
