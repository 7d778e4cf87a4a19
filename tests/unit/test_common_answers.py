"""The guard-rail "share of the commonest answers"."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarmnode.rewards.common_answers import (
    ANSWERS_PER_GROUP,
    EXCESS_SEEN,
    LISTED,
    MINIMUM_RIGHT,
    TEXT_CHARACTERS,
    CommonAnswers,
    Concentration,
    Observation,
    concentration,
    pooled,
    shortened,
    tally,
)
from swarmnode.rewards.verifiers import verify
from swarmnode.tasks import Catalogue
from swarmnode.types import Completion, Group, PolicyInfo, Question, SampledAnswers, Scored

WEAK = ("(P ∨ Q)", "(Q ∨ P)", "(P ∨ P)", "(Q ∨ Q)")


def found(observations: Iterable[Observation]) -> Concentration:
    figures = concentration(tally(observations))
    assert figures is not None
    return figures


def group(
    task: str, reference: str, texts: Sequence[str], scores: Sequence[float] | None = None
) -> Scored:
    question = Question(task, "easy", 0, "?", reference)
    completions = tuple(Completion(text, "stop", 1) for text in texts)
    of = Group(question, completions, b"", PolicyInfo("p", 0, b""))
    return Scored(of, tuple(scores or [1.0] * len(texts)), "local", 0.0)


def loophole(count: int, task: str = "propositional_logic", start: int = 0) -> list[Scored]:
    """Groups of varied references, all answered with the same few weak disjunctions."""
    return [group(task, f"reference {start + at}", WEAK[:2]) for at in range(count)]


def test_a_task_of_yes_and_no_raises_no_suspicion() -> None:
    rng = random.Random(0)
    drawn = [rng.choice(["Yes", "No"]) for _ in range(100)]
    figures = found(Observation(each, each, True) for each in drawn)
    assert (figures.share, figures.expected, figures.excess) == (1.0, 1.0, 0.0)
    assert not figures.seen


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1, max_size=200))
def test_with_one_right_text_a_question_the_excess_is_exactly_zero(
    answered: list[tuple[int, bool]],
) -> None:
    figures = concentration(tally(Observation(str(n), str(n), right) for n, right in answered))
    assert figures is None or figures.excess == 0.0


def test_a_policy_that_solves_only_easy_questions_raises_no_suspicion() -> None:
    observations = [Observation(str(n), str(n % 3), n < 3) for n in range(40)] * 10
    assert found(observations).excess == 0.0


def test_constant_weak_answers_to_varied_questions_are_a_large_excess() -> None:
    figures = found(Observation(f"answer {n}", WEAK[n % 4], True) for n in range(50))
    assert (figures.share, figures.expected) == (1.0, 0.08)
    assert figures.seen


def test_wrong_answers_count_for_nothing_however_common() -> None:
    right = [Observation(str(n), str(n), True) for n in range(30)]
    wrong = [Observation(str(n), "7", False) for n in range(900)]
    assert found(right) == found([*right, *wrong])


def test_an_excess_is_a_suspicion_from_the_threshold_on() -> None:
    assert Concentration(0.75, 0.25).seen
    assert not Concentration(0.5, 0.25).seen
    assert not Concentration(0.25, 0.75).seen


def test_below_the_minimum_of_right_answers_there_is_no_figure() -> None:
    observations = [Observation(f"answer {n}", "P", True) for n in range(MINIMUM_RIGHT)]
    assert concentration(tally(observations)) is not None
    assert concentration(tally(observations[1:])) is None
    assert concentration(SampledAnswers((), {}, {})) is None


def test_pooling_is_exact_however_the_answers_are_dealt_out() -> None:
    rng = random.Random(1)
    observations = [
        Observation(str(rng.randrange(20)), str(rng.randrange(9)), rng.random() < 0.5)
        for _ in range(300)
    ]
    whole = tally(observations)
    assert len(whole.commonest) == 9
    parts = [tally(observations[at::7]) for at in range(7)]
    assert pooled(parts) == whole
    assert pooled([pooled(parts[:3]), *parts[3:]]) == whole
    assert list(pooled(parts).right) == list(whole.right)


def test_the_commonest_answers_are_few_ranked_and_say_how_many_were_right() -> None:
    texts = [f"text {n:02}" for n in range(LISTED + 5)]
    observations = [Observation("r", text, True) for text in reversed(texts)]
    observations += [Observation("r", "text 03", False)] * 2
    listed = tally(observations).commonest
    assert len(listed) == LISTED
    assert (listed[0].text, listed[0].count, listed[0].right) == ("text 03", 3, 1)
    assert [each.text for each in listed[1:4]] == ["text 00", "text 01", "text 02"]


def test_long_texts_are_cut_and_stay_different() -> None:
    one, other = "a" * 5000, "a" * 5001
    assert len(shortened(one)) == TEXT_CHARACTERS
    assert shortened(one) != shortened(other)
    exact = "∨" * TEXT_CHARACTERS
    assert shortened(exact) == exact


@pytest.mark.parametrize("text", ["\ud800", "\x00", "<b>", "\ud800" * 5000, ""])
def test_every_text_becomes_valid_unicode(text: str) -> None:
    assert len(shortened(text).encode("utf-8")) <= 4 * TEXT_CHARACTERS


def test_a_node_sees_the_loophole_in_its_own_rounds() -> None:
    watched = CommonAnswers(64)
    assert watched.watch(loophole(MINIMUM_RIGHT // 2 - 1)) == {}
    metrics = watched.watch(loophole(20, start=100))
    assert metrics["answers/common_share/propositional_logic"] == 1.0
    assert metrics["answers/common_excess/propositional_logic"] == pytest.approx(1 - 8 / 62)


def test_each_task_is_watched_for_itself() -> None:
    watched = CommonAnswers(64)
    metrics = watched.watch([*loophole(20), *(group("bf", str(n), [str(n)] * 2) for n in range(9))])
    assert {name.rpartition("/")[2] for name in metrics} == {"propositional_logic"}
    metrics = watched.watch([group("bf", str(n), [str(n)] * 2) for n in range(9)])
    assert metrics["answers/common_excess/bf"] == 0.0


def test_the_window_forgets() -> None:
    watched = CommonAnswers(64)
    assert watched.watch(loophole(40))["answers/common_share/propositional_logic"] == 1.0
    honest = [group("propositional_logic", f"r{n}", [f"r{n}"]) for n in range(64)]
    metrics = watched.watch(honest)
    assert metrics["answers/common_share/propositional_logic"] == 4 / 64
    assert metrics["answers/common_excess/propositional_logic"] == 0.0


def test_a_group_of_many_completions_does_not_fill_the_window_alone() -> None:
    watched = CommonAnswers(64)
    metrics = watched.watch([group("logic", f"r{n}", ["P"] * 64) for n in range(16)])
    assert metrics["answers/common_excess/logic"] == 1 - 4 * ANSWERS_PER_GROUP / 64


def test_answers_are_read_out_of_completions_as_verifiers_do() -> None:
    watched = CommonAnswers(64)
    texts = [f"thought {n} <answer> P </answer>" for n in range(3)]
    groups = [group("logic", f" r{n} ", texts, [1.0, 0.99, 0.5]) for n in range(12)]
    metrics = watched.watch(groups)
    assert metrics["answers/common_share/logic"] == 1.0
    assert metrics["answers/common_excess/logic"] == pytest.approx(1 - 4 / 12)


def test_it_sees_the_loophole_of_reasoning_gyms_own_verifier_and_no_copied_premises() -> None:
    questions = Catalogue(bytes(32)).held_out("propositional_logic", "paper", 60)

    def watched(texts: Callable[[Sequence[str]], Sequence[str]]) -> float:
        groups = []
        for instance in questions:
            premises = instance.metadata["premises"]
            assert isinstance(premises, list)
            answers = texts(premises)
            task, reference = instance.question.task, instance.question.answer
            scores = [verify(task, reference, instance.metadata, text) for text in answers]
            groups.append(group(task, reference, answers, scores))
        return CommonAnswers().watch(groups)["answers/common_excess/propositional_logic"]

    assert watched(lambda premises: WEAK) >= EXCESS_SEEN
    assert watched(lambda premises: WEAK[:1] * 8) >= EXCESS_SEEN
    assert watched(lambda premises: premises) < 0.1
