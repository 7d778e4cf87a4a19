"""`swarmnode compare`: what its words mean, and the whole command on real, very small policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from swarmnode.cli.contestants import named, pairs_of, settings_of
from swarmnode.cli.exits import Mistake
from swarmnode.config.settings import Settings, load_settings
from swarmnode.home import Home
from swarmnode.hosted_policy import HostedPolicy
from swarmnode.origin import kept
from tests.unit.resume_support import order, saved
from tests.unit.test_cli import run

TASKS = ["basic_arithmetic", "fraction_simplification"]


def made(shared_seed: int) -> HostedPolicy:
    return HostedPolicy({**order(), "shared_seed": shared_seed})


def origin(policy: dict[str, Any], tasks: list[str]) -> dict[str, Any]:
    """What the daemon keeps with a checkpoint."""
    policy = {**policy, "temperature": 1.5}
    settings = load_settings(flags={"tasks.names": tasks})
    return kept(4, Settings(**{**settings.model_dump(), "policy": policy}), bytes(32), None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two trained homes, `one` and `other`, an export of the first, and an empty folder."""
    folder = tmp_path_factory.mktemp("policies")
    settings = order()["policy"]
    tasks = {"one": TASKS, "other": TASKS[::-1], "stranger": ["gcd:default"]}
    # None has the weights that a new policy begins with: what is not opened would be seen.
    for seed, (name, names) in enumerate(tasks.items(), 3):
        home = Home(folder / name)
        home.make()
        saved(made(seed), home.checkpoints, origin(settings, names))
    (folder / "exported").mkdir()
    made(3).export(str(folder / "exported"), "merged")
    (folder / "empty").mkdir()
    return folder


def test_a_word_is_a_home_a_checkpoint_a_folder_or_a_model(place: Path) -> None:
    home = named(str(place / "one"))
    assert home.chosen
    assert home.model is None
    assert named(str(home.chosen.path)).chosen
    exported = named(str(place / "exported"))
    assert (exported.chosen, exported.model) == (None, str(place / "exported"))
    assert named("tiny").model == "tiny"
    assert named("Qwen/Qwen2.5-0.5B-Instruct").model == "Qwen/Qwen2.5-0.5B-Instruct"


def test_a_relative_word_means_the_same(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.chdir(place)
    assert named("exported").model == str(place / "exported")
    assert named("one").chosen


def test_a_model_as_it_is_is_asked_like_the_run_beside_it(place: Path) -> None:
    home, exported = named(str(place / "one")), named(str(place / "exported"))
    one, other = settings_of(home, exported, None, []), settings_of(exported, home, None, [])
    assert other.policy.model == str(place / "exported")
    assert (other.policy.shown_examples, other.policy.new_tokens) == (0, 8)
    assert one.policy.temperature == other.policy.temperature == 1.5
    assert other.policy.lora.rank == 0
    alone = settings_of(exported, named("tiny"), None, [])
    assert (alone.policy.shown_examples, alone.policy.new_tokens) == (4, 64)
    changed = settings_of(exported, home, None, ["policy.temperature=0.5"])
    assert changed.policy.temperature == 0.5


def test_two_runs_are_asked_what_they_share(place: Path) -> None:
    one, other, stranger = (named(str(place / name)) for name in ("one", "other", "stranger"))
    assert pairs_of((one, other), None, [], {})[0] == [(task, "easy") for task in TASKS]
    assert pairs_of((named("tiny"), stranger), None, [], {})[0] == [("gcd", "default")]
    with pytest.raises(Mistake, match="no task in common"):
        pairs_of((one, stranger), None, [], {})
    flags = {"tasks.names": ["gcd:default"], "evaluation.questions_per_task": 7}
    assert pairs_of((one, stranger), None, [], flags) == ([("gcd", "default")], 7)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ("compare one", 2, "(see --help)"),
        ("compare one two", 2, "unknown model 'two'"),
        ("compare one empty", 3, "has no checkpoint"),
        ("compare one stranger", 2, "no task in common"),
        ("compare one other --task gcd:hard", 2, "no level 'hard'"),
        ("compare one other --samples 0", 2, "(see --help)"),
        ("compare one other --questions 0", 2, "questions_per_task = 0"),
        ("compare one other --report nowhere/page.html", 2, "there is no folder nowhere"),
    ],
)
def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: Path,
    line: str,
    code: int,
    words: str,
) -> None:
    monkeypatch.chdir(place)
    assert run(monkeypatch, *line.split()) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def compared(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> dict[str, Any]:
    capsys.readouterr()
    assert run(monkeypatch, "compare", *words, "--json") == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_checkpoint_and_its_export_say_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    """Same questions, seeds, prompts, temperature: every answer is alike, on real processes."""
    monkeypatch.chdir(place)
    words = ("one", "exported", "--questions", "3", "--samples", "2", "--report", "page.html")
    found = compared(monkeypatch, capsys, *words)
    assert found["mean"]["tokens"]["a"]["mean"] > 1
    for figure in ("tokens", "characters", "success"):
        assert found["mean"][figure]["difference"]["mean"] == 0.0
    assert found["mean"]["ties"] == 1.0
    assert {rail["a"] == rail["b"] for rail in found["guard_rails"].values()} == {True}
    assert found["a"]["checkpoint"]["round"] == 4
    assert found["b"]["checkpoint"] is None
    assert found["b"]["temperature"] == found["a"]["temperature"] == 1.5
    assert list(found["tasks"]) == TASKS
    assert "No difference in success" in (place / "page.html").read_text("utf-8")


@pytest.mark.real
def test_other_weights_say_something_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], place: Path
) -> None:
    monkeypatch.chdir(place)
    words = ("one", "other", "--questions", "3", "--samples", "2", "--task", TASKS[0])
    found = compared(monkeypatch, capsys, *words)
    assert found["same_tokenizer"] is True
    assert found["mean"]["characters"]["difference"]["mean"] != 0.0
    assert list(found["tasks"]) == TASKS[:1]
