"""The package by itself: what a task, a filter and a reward of one's own should be tested for."""

from __future__ import annotations

import random
import string
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

import pytest

from swarmnode.rewards import verify_by
from swarmnode.rewards.channels import Paid
from swarmnode.tasks import Catalogue
from swarmnode.tasks.registry import try_out
from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored
from swarmnode_letters.filter import Hardest
from swarmnode_letters.reward import FewCommas
from swarmnode_letters.task import LETTERS, LetterOrder

TASK = "letter_order"


def instances(level: str, count: int = 200) -> list[tuple[str, str]]:
    """Questions and answers of a stream, as a node would draw them."""
    drawn, _ = Catalogue(bytes(32)).draw(bytes(32), TASK, level, 0, count)
    return [(each.question.text, each.question.answer) for each in drawn]


def worth(answer: str, completion: str) -> float:
    """What a whole completion is worth, as the scorer reads it."""
    return verify_by(LetterOrder().verify, answer, {}, completion)


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("swarmnode.tasks", TASK),
        ("swarmnode.filters", "hardest"),
        ("swarmnode.rewards", "few-commas"),
    ],
)
def test_each_part_is_found_by_its_entry_point(group: str, name: str) -> None:
    (found,) = entry_points(group=group, name=name)
    assert found.load().__module__.startswith("swarmnode_letters.")


@pytest.mark.parametrize("level", LETTERS)
def test_a_level_works_and_does_not_run_out_of_questions(level: str) -> None:
    try_out(TASK, level)
    assert len(Catalogue(bytes(32)).held_out(TASK, level, 100)) == 100
    assert len({text for text, _ in instances(level, 1000)}) > 950


@pytest.mark.parametrize("level", LETTERS)
def test_another_process_asks_the_same(level: str) -> None:
    code = (
        "from swarmnode_letters.task import LetterOrder\n"
        f"print([LetterOrder().draft({level!r}, 5, index) for index in range(8)])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == str([LetterOrder().draft(level, 5, index) for index in range(8)])


@pytest.mark.parametrize("level", LETTERS)
def test_nothing_but_the_letters_in_order_is_paid(level: str) -> None:
    for text, answer in instances(level):
        asked = text.rpartition(": ")[2]
        right = [answer, answer.replace(" ", ""), answer.replace(" ", ", "), answer.upper()]
        wrong = [asked, text, answer[:-2], f"{answer} z", answer[::-1], string.ascii_lowercase]
        assert [worth(answer, each) for each in right] == [1.0] * len(right)
        assert [worth(answer, each) for each in wrong] == [0.0] * len(wrong)


@pytest.mark.parametrize("level", LETTERS)
def test_no_fixed_answer_is_often_right(level: str) -> None:
    answers = [answer for _, answer in instances(level, 1000)]
    assert max(answers.count(answer) for answer in set(answers)) / len(answers) < 0.05


@pytest.mark.parametrize("text", ["", " ", "\0", "a" * 10**6, ",  ," * 10**5, "\u202e", "ａ"])
def test_whatever_a_stranger_writes_has_a_score_and_it_is_nothing(text: str) -> None:
    assert worth("a b c d", text) == 0.0


def scored(name: str, successes: int) -> Scored:
    """A peer's group of four completions with so many right ones."""
    completion = Completion(text="a b", token_count=3, finish_reason="stop")
    question = Question(TASK, "short", 0, name, "a b")
    group = Group(question, (completion,) * 4, name.encode(), PolicyInfo("tiny", 0, b""))
    return Scored(group, (1.0,) * successes + (0.0,) * (4 - successes), "external", 0.0)


def as_they_are(groups: Sequence[Scored], count: int, rng: random.Random) -> list[Scored]:
    return list(groups[:count])


def test_the_filter_takes_live_groups_with_the_fewest_successes() -> None:
    successes = {"a": 3, "b": 0, "c": 1, "d": 4, "e": 2}
    groups = [scored(name, each) for name, each in successes.items()]
    chosen = Hardest(as_they_are).select(groups, 2, random.Random(0))
    assert [each.group.question.text for each in chosen] == ["c", "e"]


def test_the_reward_takes_off_for_each_comma() -> None:
    paid = [Paid("?", text, (5,), success=True) for text in ("a b", "a, b", "a, b, c")]
    assert list(FewCommas({"each": 0.5}).rewards(paid)) == [0.0, -0.5, -1.0]
