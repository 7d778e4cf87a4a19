"""What attackers publish, by transformation: pure."""

from __future__ import annotations

import pytest

from swarmnode.rewards import verify
from swarmnode.sim.attacks.attacker import asked, forged
from swarmnode.sim.attacks.forging import (
    FALSE_ANSWER,
    FALSE_QUESTION,
    FALSE_STEP,
    LOOPHOLE_TASK,
    MARK,
    WEAK_ANSWER,
    answered,
    copied,
)
from swarmnode.types import Question, Scored

KEY = bytes(range(32))
OTHER = bytes(32)


def honest(index: int = 0) -> Scored:
    return answered(Question("basic_arithmetic", "easy", index, "9 + 5 =", "14"), 8, KEY)


def texts(scored: Scored) -> list[str]:
    return [completion.text for completion in scored.group.completions]


def worth(scored: Scored) -> list[float]:
    return [verify("basic_arithmetic", "14", {}, text) for text in texts(scored)]


def test_an_attacker_starts_from_a_live_group_that_says_what_it_is() -> None:
    group = honest()
    assert worth(group) == [1.0] * 4 + [0.0] * 4 == list(group.scores)
    assert group.live
    assert group.group.publisher == KEY


@pytest.mark.parametrize(
    ("attack", "text"),
    [("out-of-context", MARK), ("sybil", MARK), ("eclipse", MARK), ("false-steps", FALSE_STEP)],
)
def test_text_behind_right_answers_leaves_them_right(attack: object, text: str) -> None:
    poisoned = forged(attack, honest(), 40)  # type: ignore[arg-type]
    assert worth(poisoned) == list(honest().scores)
    assert [text in each for each in texts(poisoned)] == [True] * 4 + [False] * 4
    assert all(completion.token_count <= 40 for completion in poisoned.group.completions)


def test_long_answers_are_right_and_fill_what_is_allowed() -> None:
    long = forged("long-answers", honest(), 40)
    assert worth(long) == list(honest().scores)
    lengths = [completion.token_count for completion in long.group.completions]
    assert lengths == [40] * 4 + [1] * 4


def test_a_false_truth_is_claimed_and_is_wrong() -> None:
    false = forged("false-truth", honest(2), 40)
    assert false.group.question.answer == FALSE_ANSWER
    assert false.group.question.text == "9 + 5 ="
    assert false.scores == honest().scores
    assert worth(false) == [0.0] * 8
    assert forged("false-truth", honest(3), 40).group.question.text == FALSE_QUESTION


def test_withheld_failures_are_announced_and_missing() -> None:
    lucky = forged("withheld-failures", honest(), 40)
    assert worth(lucky) == [1.0] * 8
    assert lucky.pass_rate == 0.5


def test_a_weak_answer_is_given_to_the_task_that_pays_it() -> None:
    assert texts(forged("loophole", honest(), 40))[:4] == [WEAK_ANSWER] * 4
    levels = [("basic_arithmetic", "easy"), (LOOPHOLE_TASK, "paper")]
    assert list(asked("loophole", levels)) == [LOOPHOLE_TASK]
    assert asked("slow", levels) == {"basic_arithmetic": 0.5, LOOPHOLE_TASK: 0.5}


def test_a_copy_differs_in_its_key_alone() -> None:
    (copy,) = copied([honest()], OTHER)
    assert copy.group.publisher == OTHER
    assert copy.group.completions == honest().group.completions
    assert copy.group.question == honest().group.question
