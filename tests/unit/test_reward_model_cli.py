"""`swarmnode reward-model train`: a folder that judges, figures, and one line for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from swarmnode.config.channels import RewardModel
from swarmnode.reward_models.comparisons import read_comparisons, split
from swarmnode.reward_models.opening import open_judge
from tests.unit.model_support import write_model
from tests.unit.preference_support import pairs, write_lines
from tests.unit.test_cli import run


def test_a_trained_folder_is_whole_judges_and_brings_its_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_lines(tmp_path / "data.jsonl", pairs(30))
    out = tmp_path / "models" / "kind"
    arguments = ("reward-model", "train", str(data), str(out))
    assert run(monkeypatch, *arguments, "--epochs", "1", "--json") == 0
    told = capsys.readouterr()
    report = json.loads(told.out)
    assert report == json.loads((out / "figures.json").read_text())
    assert report["comparisons"] == 6
    assert report["comparisons_learned"] == 24
    assert 0.0 <= report["accuracy"]["low"] <= report["accuracy"]["mean"] <= 1.0
    assert report["length_correlation"]["mean"] is not None
    assert "24 to learn from, 6 held out" in told.err
    assert "step     2/2" in told.err
    assert [path.name for path in out.parent.iterdir()] == ["kind"]
    assert open_judge(RewardModel(name="k", model=str(out)), torch.device("cpu"), 64)
    assert run(monkeypatch, *arguments) == 3
    assert "is there already and is not overwritten" in capsys.readouterr().err


def test_a_mistake_is_one_line_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = write_lines(tmp_path / "few.jsonl", pairs(3))
    some = write_lines(tmp_path / "some.jsonl", pairs(8))
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"prompt": "a"\n')
    out = str(tmp_path / "out")
    train = ("reward-model", "train")
    for arguments, code, line in (
        ((*train, str(tmp_path / "absent"), out), 3, "cannot be read: No such file"),
        ((*train, str(broken), out), 3, "is no file of JSON lines"),
        ((*train, str(few), out), 3, "too few"),
        ((*train, str(some), out, "--max-tokens", "8"), 3, "raise --max-tokens"),
        ((*train, str(some), out, "--model", "tiny"), 3, "tiny generates and can't judge"),
        ((*train, str(some), out, "--model", "./absent"), 3, "there is no folder ./absent"),
        ((*train, str(some), out, "--epochs", "0"), 2, "(see --help)"),
        ((*train, str(some), str(few / "out")), 3, "choose another place"),
    ):
        assert run(monkeypatch, *arguments) == code
        said = capsys.readouterr().err.splitlines()
        assert [one for one in said if one.startswith("swarmnode: ")] == said[-1:]
        assert line in said[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "broken.jsonl",
        "few.jsonl",
        "some.jsonl",
    ]


def test_what_only_loading_or_examining_shows_is_one_line_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = list(pairs(8))
    data = write_lines(tmp_path / "data.jsonl", iter(told))
    _, held = split(read_comparisons(data).every, 0.2, 0)
    for pair in told:
        if pair["prompt"] in {one.prompt for one in held}:
            pair["chosen"] = "far too long " * 60
    unheard = write_lines(tmp_path / "unheard.jsonl", iter(told))
    sees = write_model(tmp_path / "sees")
    config = json.loads((sees / "config.json").read_text())
    (sees / "config.json").write_text(json.dumps(config | {"model_type": "sam"}))
    for file, more, line in (
        (unheard, ("--epochs", "1"), "no held-out completion could be judged; raise --max-tokens"),
        (data, ("--model", str(sees)), "is no model that transformers can put a classification"),
    ):
        train = ("reward-model", "train", str(file), str(tmp_path / "out"))
        assert run(monkeypatch, *train, *more) == 3
        said = capsys.readouterr().err.splitlines()
        assert line in said[-1]
    assert not (tmp_path / "out").exists()
