"""The accuracy channel: success, partial credit, truncation."""

from __future__ import annotations

import pytest

from swarmnode.rewards.channels import accuracy, rewards
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
