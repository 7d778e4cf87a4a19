"""A close examination: what is asked, how it is judged, what is made of it; no process starts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from swarmnode.cli.checkpoints import chosen_checkpoint
from swarmnode.cli.exam_figures import figures_of
from swarmnode.cli.exits import Mistake
from swarmnode.config.settings import load_settings
from swarmnode.evaluation import EvaluationError, Marks, examine_closely
from swarmnode.examining import ExamResult
from swarmnode.home import Home
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.outfit import making_of
from swarmnode.rewards.client import Verdict
from swarmnode.types import Completion, Group, PolicyInfo, Question
from tests.unit.resume_support import order, saved
from tests.unit.test_cli import run


def question(task: str, index: int) -> Question:
    return Question(task, "easy", index, f"{task} {index}", "right")


class Answering:
    """Answers question n rightly in its first n samples, and greedily where n is even."""

    info = PolicyInfo("made", 0, b"")

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], int, int]] = []

    async def samples(
        self, questions: Sequence[Question], completions: int, seed: int
    ) -> Sequence[Sequence[Completion]]:
        self.asked.append((tuple(each.text for each in questions), completions, seed))
        numbers = [each.index for each in questions]
        return [[_said(place < number) for place in range(completions)] for number in numbers]

    async def answer(
        self, questions: Sequence[Question], decoding: Literal["sampled", "greedy"], seed: int
    ) -> Sequence[Completion]:
        assert decoding == "greedy"
        return [_said(each.index % 2 == 0) for each in questions]


def _said(right: bool) -> Completion:
    return Completion("right" if right else "wrong", "stop", 1)


class Scoring:
    """Scores by text; as a Scorer."""

    rejection: Any = None

    async def score(
        self, groups: Sequence[Group], *, expect_held_out: bool = False
    ) -> list[Verdict]:
        assert expect_held_out
        return [
            Verdict(
                tuple(float(each.text == "right") for each in group.completions), self.rejection
            )
            for group in groups
        ]


def examined(scoring: Any, policy: Answering, samples: int, count: int) -> tuple[Marks, int]:
    told: list[int] = []
    questions = {task: [question(task, n) for n in range(count)] for task in ("a", "b")}
    marks = asyncio.run(
        examine_closely(scoring, policy, questions, samples, lambda _task, some: told.append(some))
    )
    return marks, sum(told)


def test_every_answer_gets_its_mark_at_its_place() -> None:
    policy = Answering()
    marks, told = examined(Scoring(), policy, 4, 5)
    assert marks.sampled["a"] == ["0000", "1000", "1100", "1110", "1111"]
    assert marks.greedy == {"a": "10101", "b": "10101"}
    assert told == 10
    assert marks.pass_at(1)["a"] == pytest.approx([0, 0.25, 0.5, 0.75, 1])
    assert marks.pass_at(4)["b"] == pytest.approx([0, 1, 1, 1, 1])


def test_the_first_questions_are_asked_alike_however_many_there_are() -> None:
    few, many = Answering(), Answering()
    examined(Scoring(), few, 16, 4)
    examined(Scoring(), many, 16, 12)
    assert few.asked[0] == many.asked[0]
    assert max(len(prompts) * count for prompts, count, _ in many.asked) <= 64
    assert len({seed for _, _, seed in many.asked}) == 3


def test_a_question_that_the_scorer_does_not_know_ends_the_examination() -> None:
    scoring = Scoring()
    for rejection in ("scorer_killed", "unscorable"):
        scoring.rejection = rejection
        examined(scoring, Answering(), 2, 2)
    scoring.rejection = "question_differs"
    with pytest.raises(EvaluationError, match="question_differs"):
        examined(scoring, Answering(), 2, 2)


START = Marks({"a": ["1000", "0000"], "b": ["1111", "0000"]}, {"a": "00", "b": "10"})
NOW = Marks({"a": ["1100", "1000"], "b": ["1111", "0000"]}, {"a": "01", "b": "10"})
PAIRS = [("a", "easy"), ("b", "paper")]


def test_figures_are_paired_and_tasks_count_equally() -> None:
    figures = figures_of(ExamResult(START, NOW), PAIRS, 4)
    assert list(figures.mean) == ["pass@1", "pass@2", "pass@4", "greedy"]
    change = figures.mean["pass@1"].change
    assert change
    assert change.mean == pytest.approx((0.25 + 0) / 2)
    assert figures.tasks["b"]["greedy"].change == figures.tasks["b"]["pass@1"].change
    document = figures.as_json()
    assert document["tasks"]["b"]["level"] == "paper"
    assert document["tasks"]["a"]["pass@4"]["now"] == {"mean": 1.0, "low": 1.0, "high": 1.0}


def test_a_model_alone_has_no_change() -> None:
    document = figures_of(ExamResult(START, None), PAIRS, 4).as_json()
    assert list(document["mean"]["greedy"]) == ["start"]


def test_an_interval_that_is_not_known_is_none_and_not_a_number() -> None:
    one = Marks({"a": ["1"]}, {"a": "1"})
    document = figures_of(ExamResult(one, None), [("a", "easy")], 1).as_json()
    assert list(document["mean"]) == ["pass@1", "greedy"]
    assert document["mean"]["pass@1"]["start"] == {"mean": 1.0, "low": None, "high": None}


def test_the_start_of_a_node_follows_from_settings_and_key() -> None:
    settings, key = load_settings(), bytes(range(32))
    one, other = (making_of(settings, key, seed, Path("cache")) for seed in (1, 2))
    assert (one.seed, one.stream, one.skills) == (other.seed, other.stream, other.skills)
    assert one.sampling_seed != other.sampling_seed
    assert len(one.skills) == 2
    assert making_of(settings, b"", 1, Path("cache")).skills == ()


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a checkpoint, and an empty one."""
    folder = tmp_path_factory.mktemp("homes")
    home = Home(folder / "trained")
    home.make()
    saved(HostedPolicy(order()), home.checkpoints, {"round": 5})
    home.database.touch()
    Home(folder / "empty").make()
    return folder


def test_a_checkpoint_is_found_by_its_home_and_by_itself(homes: Path, tmp_path: Path) -> None:
    by_home = chosen_checkpoint(homes / "trained", None)
    assert by_home.home
    assert by_home.origin.round == 5
    alone = homes / "trained" / "checkpoints" / "step-0"
    assert chosen_checkpoint(alone, None) == by_home
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in alone.iterdir():
        (moved / file.name).write_bytes(file.read_bytes())
    assert chosen_checkpoint(moved, None).home is None
    (moved / "model.safetensors").write_bytes(b"")
    with pytest.raises(Mistake, match=r"is damaged: model\.safetensors"):
        chosen_checkpoint(moved, None)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("eval absent", 3, "there is no folder"),
        ("eval empty", 3, "has no checkpoint: it has none yet"),
        ("eval trained --checkpoint 9", 3, "no checkpoint 9: there are 0"),
        ("eval trained/checkpoints/step-0 --checkpoint 0", 2, "is a checkpoint itself"),
        ("eval trained --model tiny", 2, "give a folder or --model, not both"),
        ("eval --checkpoint 3 --model tiny", 2, "give a folder or --model, not both"),
        ("eval --model gpt-5 --task bf", 2, "gpt-5"),
        ("eval trained --task bf:hard", 2, "no level 'hard'"),
        ("eval trained --questions 0", 2, "questions_per_task = 0"),
        (
            # Of those that have fewer, one whose questions cost next to nothing to look through.
            "eval trained --task prime_factorization:default --questions 1000",
            2,
            "prime_factorization:default gave 110 of 1000 questions",
        ),
        ("eval trained --samples 0", 2, "(see --help)"),
        ("eval trained --samples 1000", 2, "(see --help)"),
    ],
)
def test_a_mistake_is_one_line_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    homes: Path,
    line: str,
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(homes)
    assert run(monkeypatch, *line.split()) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
