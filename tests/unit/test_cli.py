"""The command line before anything is started: every mistake is one line with its remedy."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from swarmnode.cli import main


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["swarmnode", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    code = caught.value.code
    assert isinstance(code, int)
    return code


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--task", "base_conversoin"], 2, "did you mean 'base_conversion'"),
        (["--task", "bf:hard"], 2, "no level 'hard'; choose"),
        (["--task", "n_queens"], 2, "refused"),
        (["--mix", "0/0"], 2, "take at least one group"),
        (["--mix", "four"], 2, "such as 4/4"),
        (["--mix", "65/0"], 2, "less than or equal to 64"),
        (["--compare", "8/0,0/0"], 2, "take at least one group"),
        (["--mix", "4/4", "--compare", "8/0"], 2, "not both"),
        (["--seeds", "0"], 2, "at least 1"),
        (["--filter", "best"], 2, "there are balanced, fresh"),
        (["--model", "gpt-5"], 2, "unknown model 'gpt-5'"),
        (["--skills", "juggling"], 2, "juggling is not among the tasks"),
        (["--nodes", "0"], 2, "simulation.nodes = 0"),
        (["--rounds", "0"], 2, "simulation.rounds = 0"),
        (["--set", "training.lr=1"], 2, "is no setting"),
        (["--set", "rounds.local_groups_per_round=0", "--set",
          "rounds.external_groups_per_round=0"], 2, "take at least one group"),
        (["--config", "absent.toml"], 3, "absent.toml cannot be read"),
        (["--out", "/proc/swarm"], 3, "choose another folder with --out"),
    ],
)  # fmt: skip
def test_a_mistake_gives_one_line_and_its_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    assert run(monkeypatch, "simulate", *arguments) == code
    shown = capsys.readouterr()
    assert words in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_a_typo_in_toml_names_the_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "swarm.toml"
    file.write_text("[rounds]\ncompletions = 4\n")
    assert run(monkeypatch, "simulate", "--config", str(file)) == 3
    assert "swarm.toml" in capsys.readouterr().err


def test_an_unknown_option_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "simulate", "--node", "8") == 2
    assert "--nodes" in capsys.readouterr().err


def test_the_version_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out.startswith("swarmnode 0.")
