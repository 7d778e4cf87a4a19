"""`swarmnode config`: settings with their origins, as a file that is read back, and the paths."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from swarmnode.cli.config_text import toml_value
from swarmnode.config.settings import Settings, describe, load_settings, load_with_origins
from swarmnode.home import Home
from swarmnode.keys import load_or_create_key
from swarmnode.observe.disk import occupied
from tests.unit.test_cli import run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "swarm.toml"
    file.write_text("[rounds]\nquestions_per_round = 5\n[daemon]\ncheckpoints = 7\n")
    return file


@pytest.mark.usefixtures("home")
def test_every_setting_is_shown_with_where_it_comes_from(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SWARMNODE_DAEMON__GRACE_SECONDS", "3")
    given = (
        "--config",
        str(file),
        "--set",
        "daemon.checkpoints=9",
        "--set",
        "training.preset=dapo",
    )
    assert run(monkeypatch, "config", "show", *given, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) == {name for name, _, _ in describe(Settings)}
    changed = {
        name: (each["value"], each["origin"])
        for name, each in shown.items()
        if each["origin"] != "default"
    }
    assert changed == {
        "rounds.questions_per_round": (5, str(file)),
        "daemon.grace_seconds": (3.0, "the environment"),
        "daemon.checkpoints": (9, "--set"),
        "training.preset": ("dapo", "--set"),
        "rounds.dynamic_sampling": (True, "training.preset"),
        "rewards.channels.overlong.weight": (1.0, "training.preset"),
    }
    assert run(monkeypatch, "config", "show", *given, "--changed", "--origin") == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"questions_per_round = 5  # {file}" in lines
    assert "checkpoints = 9  # --set" in lines
    assert len([line for line in lines if " = " in line]) == len(changed)
    assert run(monkeypatch, "config", "show", "daemon.checkpoints", "evaluation", *given) == 0
    named = tomllib.loads(capsys.readouterr().out)
    assert named["daemon"] == {"checkpoints": 9}
    assert set(named) == {"daemon", "evaluation"}
    capsys.readouterr()
    assert run(monkeypatch, "config", "show", "daemon.checkpoint") == 2
    assert (
        "no setting or section 'daemon.checkpoint'; did you mean daemon.checkpoints?"
        in capsys.readouterr().err
    )


@pytest.mark.usefixtures("home")
def test_what_is_shown_is_a_file_that_gives_the_same_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = ('tasks.names=["gcd", "bf:easy"]', 'policy.instruction="say \\"so\\" \\u007f\\n# now"')
    given = [word for each in odd for word in ("--set", each)]
    assert run(monkeypatch, "config", "show", "--origin", *given) == 0
    written = tmp_path / "shown.toml"
    written.write_text(capsys.readouterr().out)
    assert load_settings(file=written) == load_settings(assignments=odd)


def test_a_commented_file_has_every_setting_and_its_lines_can_be_taken(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.toml"
    assert run(monkeypatch, "config", "init", str(file)) == 0
    text = file.read_text()
    assert tomllib.loads(text) == {}
    kept = ("# [", *(f"# {name.split('.')[-1]} = " for name, _, _ in describe(Settings)))
    taken = [
        line.removeprefix("# ")
        for line in text.splitlines()
        if line.startswith(kept) and not line.endswith("(unset)")
    ]
    file.write_text("\n".join(taken))
    assert load_settings(file=file) == Settings()
    assert run(monkeypatch, "config", "init", str(file)) == 3
    assert "not overwritten" in capsys.readouterr().err
    assert run(monkeypatch, "config", "init", str(tmp_path / "absent" / "f")) == 3
    assert "cannot be written: No such file" in capsys.readouterr().err
    assert not home.path.exists()


@pytest.mark.usefixtures("home")
def test_a_file_is_checked_as_run_would(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "config", "check", "--config", str(file)) == 0
    told = capsys.readouterr().out
    assert told.startswith("good; 2 settings are not as by default: rounds.questions_per_round")
    for line, code, words in (
        ("[rounds]\nquestion = 5\n", 3, "is no setting; did you mean"),
        ('[tasks]\nnames = ["gdc"]\n', 2, "did you mean 'gcd'?"),
        ('[selection]\nfilter = "best"\n', 2, "there are balanced, fresh"),
    ):
        file.write_text(line)
        assert run(monkeypatch, "config", "check", "--config", str(file)) == code
        shown = capsys.readouterr().err
        assert words in shown
        assert shown.count("\n") == 1


def test_the_paths_of_a_home_are_listed_with_their_sizes(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "config", "paths") == 0
    assert not home.path.exists(), "it only looks"
    home.make()
    load_or_create_key(home.key)
    for name in ("one", "two"):
        (home.checkpoints / name).mkdir()
        (home.checkpoints / name / "model").write_bytes(bytes(10**6))
    (home.path / "store.sqlite.bad-20261130T000000Z").write_bytes(bytes(8192))
    capsys.readouterr()
    assert run(monkeypatch, "config", "paths", "--json") == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert 2 * 10**6 <= found["checkpoints"]["bytes"] < 2.1 * 10**6
    assert found["damaged"]["bytes"] == 8192
    assert found["key"]["path"] == str(home.key)
    assert found["warm starts"]["path"] == str(home.path / "cache" / "warm-starts")
    assert found["models"]["bytes"] == 0
    assert "daemon.rollout_bytes" in found["store"]["bound"]
    of_home = {path.name for path in home.path.iterdir()} - {"lock", "cache"}
    listed = {Path(each["path"]).name for each in found.values()}
    assert of_home <= listed, "nothing lies in a home that isn't listed"
    assert run(monkeypatch, "config", "paths") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("together")
    assert any(line.startswith("checkpoints   1.9 MiB") for line in lines)


def test_sizes_are_those_on_disk_and_follow_no_link(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    before = occupied(inside)
    (inside / "hole").touch()
    with (inside / "hole").open("r+b") as file:
        file.truncate(10**9)
    (inside / "out").symlink_to(tmp_path)
    assert occupied(inside) - before < 10**6
    (inside / "deep" / "deeper").mkdir(parents=True)
    (inside / "deep" / "deeper" / "full").write_bytes(bytes(10**6))
    assert 10**6 <= occupied(inside) - before < 2 * 10**6
    assert occupied(tmp_path / "absent") == 0


def test_where_a_table_comes_from_several_places_all_are_named() -> None:
    loaded = load_with_origins(
        environment={"SWARMNODE_ROUNDS__QUESTIONS_PER_ROUND": "4"},
        assignments=["rounds.questions_per_round=5"],
    )
    origins = {name: source for name, _, source in loaded.origins()}
    assert origins["rounds.questions_per_round"] == "--set", "the later one wins"
    assert toml_value({"a b": [1, "x"]}) == '{"a b" = [1, "x"]}'
