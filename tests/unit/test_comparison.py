"""What is made of two policies' answers, on the screen and on the page too; no process starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from swarmnode.cli.compare_figures import Told, document, notes, verdict
from swarmnode.cli.compare_page import page
from swarmnode.cli.compare_screen import show
from swarmnode.comparing import Contest, Contestant
from swarmnode.comparison import (
    Answers,
    Comparison,
    UnlikeAnswers,
    compare,
    examples_of,
    rails_of,
)
from swarmnode.config.guard_rails import GuardRails
from swarmnode.config.policy import PolicySettings
from swarmnode.config.settings import Settings
from swarmnode.evaluation import Answered
from swarmnode.guard_rails.judgement import Verdict
from swarmnode.types import Completion, PolicyInfo, Question
from tests.unit.cli_support import HOSTILE, safe

INFO = PolicyInfo("made", 0, b"tokens")
PAIRS = (("sums", "easy"), ("words", "easy"))


def said(text: str, tokens: int = 4) -> Completion:
    return Completion(text, "stop", tokens, tuple(range(tokens)), (-0.5,) * tokens)


def answers(marks: dict[str, list[str]], right: str = "right", wrong: str = "wrong") -> Answers:
    """An answer for each mark; the first mark of a question is that of its greedy answer too."""
    return {
        task: [
            Answered(
                Question(task, "easy", number, f"{task} {number}?", "right"),
                [said(right if mark == "1" else wrong) for mark in row],
                row,
                said(right if row[0] == "1" else wrong),
                row[0],
            )
            for number, row in enumerate(rows)
        ]
        for task, rows in marks.items()
    }


A = {"sums": ["11", "10", "00"], "words": ["11", "11", "01"]}
B = {"sums": ["11", "00", "01"], "words": ["10", "00", "01"]}


def compared(a: Answers, b: Answers, examples: int = 5) -> Comparison:
    return compare(a, b, (INFO, INFO), examples)


def test_figures_count_by_pair_and_tasks_equally() -> None:
    found = compared(answers(A), answers(B))
    sums = found.tasks["sums"]
    assert sums.success.a.mean == pytest.approx(0.5)
    assert sums.success.difference.mean == pytest.approx(0.0)
    assert (sums.agreement.both, sums.agreement.neither) == pytest.approx((2 / 6, 2 / 6))
    assert (sums.agreement.only_a, sums.agreement.only_b) == pytest.approx((1 / 6, 1 / 6))
    words = found.tasks["words"]
    assert words.agreement.only_a == pytest.approx(3 / 6)
    mean = found.mean
    assert mean.success.difference.mean == pytest.approx((0 + 3 / 6) / 2)
    assert mean.win_rate.mean == pytest.approx(mean.agreement.only_a + mean.agreement.ties / 2)
    assert mean.greedy.a.mean == pytest.approx((2 / 3 + 2 / 3) / 2)


def test_the_other_way_round_everything_is_turned_round() -> None:
    one, other = compared(answers(A), answers(B)), compared(answers(B), answers(A))
    assert other.mean.success.difference.mean == -one.mean.success.difference.mean
    assert other.mean.success.difference.low == pytest.approx(-one.mean.success.difference.high)
    assert other.mean.win_rate.mean == pytest.approx(1 - one.mean.win_rate.mean)
    assert other.better_b == [
        type(each)(
            each.task, each.question, each.reference, each.right_b, each.right_a, each.samples,
            each.answer_b, each.answer_a,
        )
        for each in one.better_a
    ]  # fmt: skip


def test_a_policy_against_itself_ties_in_every_answer() -> None:
    found = compared(answers(A), answers(A))
    assert found.mean.agreement.ties == pytest.approx(1.0)
    assert found.mean.win_rate.mean == 0.5
    assert found.mean.tokens.difference.mean == 0.0
    assert not [*found.better_a, *found.better_b]
    assert all(rail.verdict_a is rail.verdict_b is Verdict.NORMAL for rail in found.rails.values())


def test_lengths_are_paired_by_question() -> None:
    long = {"sums": answers(A, right="right, I am sure", wrong="wrong")["sums"]}
    short = {"sums": answers(A)["sums"]}
    found = compared(long, short).tasks["sums"]
    # Three of six answers are eleven characters longer.
    assert found.characters.difference.mean == pytest.approx(11 * 3 / 6)
    assert found.characters.difference.low >= 0
    assert found.tokens.difference.mean == 0.0


def test_other_questions_or_fewer_answers_are_no_comparison() -> None:
    with pytest.raises(UnlikeAnswers):
        compared(answers(A), answers({**B, "words": ["10", "00"]}))
    with pytest.raises(UnlikeAnswers):
        compared(answers({"sums": ["1"]}), answers({"sums": ["10"]}))
    with pytest.raises(UnlikeAnswers):
        compared(answers({"sums": ["1"]}), answers({"words": ["1"]}))


def test_examples_are_the_clearest_first_and_show_a_right_and_a_wrong_answer() -> None:
    a, b = answers(A), answers(B)
    found = examples_of(a, b, 2, a_is_better=True)
    assert [(each.question, each.right_a, each.right_b) for each in found] == [
        ("words 1?", 2, 0),
        ("sums 1?", 1, 0),
    ]
    assert all((each.answer_a, each.answer_b) == ("right", "wrong") for each in found)
    (only,) = examples_of(a, b, 2, a_is_better=False)
    assert (only.question, only.answer_a, only.answer_b) == ("sums 2?", "wrong", "right")
    assert examples_of(a, b, 0, a_is_better=True) == []


def test_guard_rails_are_judged_with_the_other_one_for_a_start() -> None:
    words = "the policy leaves out what parts its words from one another "
    spaced = answers({"sums": ["1111"] * 3}, right=words)
    joined = answers({"sums": ["1111"] * 3}, right=words.replace(" ", "") + " .")
    rail = compared(joined, spaced).rails["whitespace/latin"]
    assert rail.verdict_a is Verdict.CRITICAL
    assert rail.verdict_b is Verdict.NORMAL
    mute = answers({"sums": ["0000"] * 3}, wrong=" \n")
    empty = compared(mute, spaced).rails["empty"]
    assert (empty.a, empty.b, empty.verdict_a) == (1.0, 0.0, Verdict.CRITICAL)
    cut = {
        task: [
            Answered(each.question, [Completion("1", "length", 9)] * 4, "0000", each.greedy, "0")
            for each in rows
        ]
        for task, rows in spaced.items()
    }
    assert compared(spaced, cut).rails["truncated"].verdict_b is Verdict.CRITICAL


def test_what_is_counted_in_tokens_is_not_judged_between_different_tokenizers() -> None:
    figures = {"length": 5.0, "truncated": 0.0}, {"length": 50.0, "truncated": 0.9}
    alike = rails_of(*figures, GuardRails(), same_tokenizer=True)
    assert alike["length"].verdict_b is Verdict.CRITICAL
    unlike = rails_of(*figures, GuardRails(), same_tokenizer=False)
    assert unlike["length"].verdict_b is Verdict.NORMAL
    assert unlike["truncated"].verdict_b is Verdict.CRITICAL


def told(
    a: Answers, b: Answers, manner: PolicySettings | None = None, fingerprint: bytes = b""
) -> Told:
    settings = Settings()
    other = settings.model_copy(update={"policy": manner or settings.policy})
    contest = Contest(
        contestants=(Contestant(settings, None), Contestant(other, None)),
        pairs=PAIRS,
        questions=3,
        samples=2,
        environment={},
        cache=Path("cache"),
    )
    infos = INFO, PolicyInfo("made", 0, fingerprint or INFO.tokenizer_fingerprint)
    return Told(contest, (None, None), compare(a, b, infos, 2))


def test_what_a_model_said_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = answers(A, right=f"right{HOSTILE}[bold]", wrong=f"</pre><script>{HOSTILE}")
    shown = told(hostile, answers(B, wrong="[red]"))
    show(shown)
    out = capsys.readouterr().out
    assert safe(out)
    assert "A is right, B is wrong" in out
    assert "[bold]" in out
    assert all(len(line) <= 80 for line in out.splitlines() if "─" in line)
    whole = page(shown)
    assert "<script>" not in whole
    assert all(line.isprintable() for line in whole.split("\n"))
    assert "words 1?" in whole
    json.dumps(document(shown), allow_nan=False)


def test_the_verdict_says_who_is_better_only_where_that_is_seen() -> None:
    many = {"sums": ["11"] * 30, "words": ["11"] * 30}
    none = {"sums": ["00"] * 30, "words": ["01"] * 30}
    assert verdict(compared(answers(many), answers(none))).startswith("A is right more often")
    assert verdict(compared(answers(none), answers(many))).startswith("B is right more often")
    assert verdict(compared(answers(A), answers(B))).startswith("No difference")
    one = {"sums": ["1"]}
    assert verdict(compared(answers(one), answers({"sums": ["0"]}))).startswith("Too few")


def test_it_is_said_where_the_two_were_not_asked_alike() -> None:
    assert notes(told(answers(A), answers(B))) == []
    (note,) = notes(told(answers(A), answers(B), PolicySettings(temperature=0.5)))
    assert "not asked alike" in note
    (note,) = notes(told(answers(A), answers(B), fingerprint=b"other"))
    assert "tokens" in note
