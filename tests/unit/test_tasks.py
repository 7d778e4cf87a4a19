"""Questions are regenerated exactly, held-out ones stay unseen, and wrong names name the remedy."""

from __future__ import annotations

import decimal
import subprocess
import sys
from pathlib import Path

import pytest

import swarmproto
from swarmnode.rewards import verify
from swarmnode.tasks import (
    DEFAULT,
    EASY,
    ENABLED,
    LEVELS,
    REFUSED,
    Catalogue,
    NoQuestion,
    RefusedTask,
    UnknownTask,
    baseline,
    check,
)
from tests.security.entry_digests import KEY, NINE, SWARM, described


@pytest.mark.parametrize(("task", "level"), NINE)
def test_a_question_depends_on_swarm_key_task_level_and_index(task: str, level: str) -> None:
    texts = {
        Catalogue(swarm).question(key, task, level, index).question.text
        for swarm in (SWARM, KEY)
        for key in (SWARM, KEY)
        for index in _indices_with_questions(task, level, swarm, key)
    }
    assert len(texts) > 8


def _indices_with_questions(task: str, level: str, swarm: bytes, key: bytes) -> list[int]:
    instances, _ = Catalogue(swarm).draw(key, task, level, 7, 3)
    return [instance.question.index for instance in instances]


@pytest.mark.parametrize(("task", "level"), NINE)
def test_no_held_out_question_is_drawn_or_warm_started_on(task: str, level: str) -> None:
    catalogue = Catalogue(SWARM)
    drawn, next_index = catalogue.draw(KEY, task, level, 0, 60)
    pairs = catalogue.warm_start_pairs(task, level, seed=3, count=60)
    texts = [instance.question.text for instance in drawn] + [text for text, _ in pairs]
    assert len(texts) == 120
    assert not any(swarmproto.is_held_out(task, level, text) for text in texts)
    assert next_index == drawn[-1].question.index + 1


@pytest.mark.parametrize(("task", "level"), NINE)
def test_evaluation_questions_are_held_out_and_distinct(task: str, level: str) -> None:
    instances = Catalogue(SWARM).held_out(task, level, 20)
    texts = {instance.question.text for instance in instances}
    assert len(texts) == 20
    assert all(swarmproto.is_held_out(task, level, text) for text in texts)
    assert instances == Catalogue(KEY).held_out(task, level, 20)


@pytest.mark.parametrize(("task", "level"), NINE)
def test_the_reference_answer_is_right_for_our_verifier(task: str, level: str) -> None:
    instances, _ = Catalogue(SWARM).draw(KEY, task, level, 0, 100)
    for instance in instances:
        answer = instance.question.answer
        assert verify(task, answer, instance.metadata, answer) == 1.0


def test_draws_continue_without_gap_or_repetition() -> None:
    catalogue = Catalogue(SWARM)
    whole, end = catalogue.draw(KEY, "bf", EASY, 0, 12)
    first, between = catalogue.draw(KEY, "bf", EASY, 0, 5)
    second, end_again = catalogue.draw(KEY, "bf", EASY, between, 7)
    assert first + second == whole
    assert end == end_again


@pytest.mark.parametrize("task", LEVELS)
def test_easy_levels_have_at_least_1000_distinct_questions(task: str) -> None:
    catalogue = Catalogue(SWARM)
    seen: set[str] = set()
    for index in range(8000):
        seen.add(catalogue.question(KEY, task, EASY, index).question.text)
        if len(seen) == 1000:
            return
    pytest.fail(f"{len(seen)} distinct questions in 8000")


def test_fingerprints_differ_between_levels_and_not_between_swarms() -> None:
    fingerprints = {Catalogue(SWARM).fingerprint(task, level) for task, level in NINE}
    assert len(fingerprints) == len(NINE)
    assert Catalogue(KEY).fingerprint("bf", EASY) in fingerprints


def test_an_unknown_task_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(UnknownTask, match=r"^unknown task 'base_convertion'; did you mean 'base_c"):
        check("base_convertion", EASY)
    with pytest.raises(UnknownTask, match=r"'basic_arithmetic' or 'decimal_arithmetic'"):
        check("arithmetic", EASY)
    with pytest.raises(UnknownTask, match=r"choose one of arc_1d, base_conversion"):
        check("zzzzzz", EASY)


def test_an_unknown_level_is_answered_with_the_levels_that_exist() -> None:
    with pytest.raises(UnknownTask, match=r"^task 'bf' has no level 'hard'; choose paper or easy$"):
        Catalogue(SWARM).question(KEY, "bf", "hard", 0)
    with pytest.raises(UnknownTask, match=r"choose default$"):
        check("chain_sum", EASY)


@pytest.mark.parametrize("task", sorted(REFUSED))
def test_a_refused_task_names_its_reason_in_one_line(task: str) -> None:
    with pytest.raises(RefusedTask) as refusal:
        Catalogue(SWARM).question(KEY, task, DEFAULT, 0)
    assert REFUSED[task] in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_every_task_of_reasoning_gym_is_a_task_of_ours_enabled_or_refused() -> None:
    from reasoning_gym.factory import DATASETS

    assert set(DATASETS) == {*LEVELS, *ENABLED, *REFUSED}
    assert len(DATASETS) == len(LEVELS) + len(ENABLED) + len(REFUSED)


def test_generation_leaves_stdout_and_the_decimal_context_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with decimal.localcontext(decimal.Context(prec=3, rounding=decimal.ROUND_DOWN)):
        rounded = described("decimal_arithmetic", "paper")
        assert decimal.getcontext().prec == 3
    assert rounded == described("decimal_arithmetic", "paper")
    described("bf", "paper")
    assert capsys.readouterr().out == ""


def test_too_many_evaluation_questions_are_refused_with_a_remedy() -> None:
    with pytest.raises(NoQuestion, match=r"of 3000 questions; ask for fewer"):
        Catalogue(SWARM).held_out("fraction_simplification", EASY, 3000)


def test_the_whole_index_range_is_asked_and_its_end_is_told() -> None:
    catalogue = Catalogue(SWARM)
    last = swarmproto.INDEX_MAX
    assert catalogue.question(KEY, "binary_matrix", EASY, last).question.index == last
    with pytest.raises(NoQuestion):
        catalogue.draw(KEY, "binary_matrix", EASY, last, 2)


def test_names_and_baselines_are_known_without_reasoning_gym() -> None:
    code = (
        "import sys; from swarmnode.tasks import baseline, check; check('gcd', 'default'); "
        "baseline('bf', 'easy'); sys.exit('reasoning_gym' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_level_has_a_published_baseline_and_easy_ones_are_at_most_a_tenth() -> None:
    for task, level in [*NINE, *((task, DEFAULT) for task in ENABLED)]:
        success = baseline(task, level)
        assert success is not None, task
        assert level != EASY or success <= 0.1, (task, success)
    assert baseline("gcd", EASY) is None


def test_the_published_table_of_rewards_has_every_level_and_pays_right_answers_in_full() -> None:
    page = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text(encoding="utf-8")
    table = page.partition("reward_table: start -->")[2].partition("<!-- reward_table: end")[0]
    rows = [line.strip("| \n").split(" | ") for line in table.strip().splitlines()[2:]]
    levels = {f"{task}:{level}" for task, level in NINE} | {f"{one}:{DEFAULT}" for one in ENABLED}
    assert {name for name, *_ in rows} == levels
    assert {right for *_, right in rows} == {"1.000"}


def test_nothing_that_solves_nothing_is_right_mostly_but_at_the_one_level_that_says_so() -> None:
    """docs/decisions/0005: the paper's propositional_logic pays for what is copied."""
    levels = [*NINE, *((task, DEFAULT) for task in ENABLED)]
    mostly = {pair for pair in levels if (baseline(*pair) or 0.0) > 0.75}
    assert mostly == {("propositional_logic", "paper")}
