"""What commands end with when a swarm, a package, a disk or a process is not as they need it."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from swarmnode.home import Home
from tests.unit.test_cli import run


def test_settings_outside_a_swarms_rules_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    file = tmp_path / "friends.toml"
    assert run(monkeypatch, "swarm", "new", "friends", "--out", str(file)) == 0
    own = [line for line in file.read_text().splitlines() if not line.startswith("swarm_id")]
    narrow = "\n".join(own).replace("tokens_max = 4096", "tokens_max = 32")
    file.write_text(narrow.replace("completions_max = 64", "completions_max = 4"))
    for setting, words in (
        ("policy.max_new_tokens=33", "takes at most 32 tokens an answer; give --set policy.max_n"),
        ("rounds.completions_per_group=5", "takes 2 to 4 answers a question; set rounds.comple"),
    ):
        capsys.readouterr()
        assert run(monkeypatch, "run", str(file), "--set", setting) == 2
        shown = capsys.readouterr().err
        assert words in shown
        assert shown.count("\n") == 1


def close_folders(monkeypatch: pytest.MonkeyPatch, named: str = "") -> None:
    """As they are to others than root, who may read every folder; all of them for no name."""
    scandir = os.scandir

    def closed(path: str | Path) -> Any:
        if Path(path).name != (named or Path(path).name):
            return scandir(path)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(os, "scandir", closed)


@pytest.mark.parametrize(
    "line", ["status", "logs", "rollouts", "peers", "config paths", "doctor --quick", "eval"]
)
def test_a_home_that_is_none_or_somebody_elses_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    line: str,
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("SWARMNODE_HOME", str(file))
    assert run(monkeypatch, *line.split()) == 3
    shown = capsys.readouterr().err
    assert f"{file} cannot be read: Not a directory; take another (a home: SWARMN" in shown
    assert shown.count("\n") == 1

    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    close_folders(monkeypatch)
    assert run(monkeypatch, *line.split()) == 3
    shown = capsys.readouterr().err
    assert f"{tmp_path} cannot be read: Permission denied; take another" in shown
    assert shown.count("\n") == 1


def test_what_is_compared_may_be_closed_to_us(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    close_folders(monkeypatch)
    assert run(monkeypatch, "compare", "tiny", str(tmp_path)) == 3
    shown = capsys.readouterr().err
    assert f"{tmp_path} cannot be read: Permission denied; take another" in shown
    assert shown.count("\n") == 1


def test_swarms_that_are_closed_to_us_are_not_taken_for_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    Home(tmp_path).make()
    close_folders(monkeypatch, "swarms")
    for line in (["swarm", "list"], ["swarm", "leave", "friends"], ["run"]):
        assert run(monkeypatch, *line) == 3
        shown = capsys.readouterr().err
        assert f"{tmp_path / 'swarms'} cannot be read: Permission denied; do this as" in shown
        assert shown.count("\n") == 1


def test_a_log_that_is_closed_to_us_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    # In the place of a file, which says the same to root and to others.
    (tmp_path / "log" / "daemon.jsonl").mkdir(parents=True)
    for line in (["logs"], ["logs", "--follow", "-n", "0"]):
        assert run(monkeypatch, *line) == 3
        shown = capsys.readouterr().err
        assert "daemon.jsonl cannot be read: Is a directory; do this as the user" in shown
        assert shown.count("\n") == 1


def test_a_store_that_cannot_be_read_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    Home(tmp_path).database.write_text("no database")
    for line in (["rollouts"], ["rollouts", "7"], ["rollouts", "--outgoing"]):
        assert run(monkeypatch, *line) == 1
        shown = capsys.readouterr().err
        assert "cannot be read: file is not a database; if it is damaged, a node" in shown
        assert shown.count("\n") == 1


def test_a_swarm_that_cannot_be_removed_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    assert run(monkeypatch, "swarm", "new", "friends") == 0

    def read_only(_path: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    capsys.readouterr()
    monkeypatch.setattr(Path, "unlink", read_only)
    assert run(monkeypatch, "swarm", "leave", "friends", "--yes") == 3
    assert "friends.toml cannot be removed: Read-only file system" in capsys.readouterr().err


def test_a_swarm_whose_file_is_damaged_is_not_exchanged_for_another_and_can_be_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    assert run(monkeypatch, "swarm", "new", "friends", "--private") == 0
    file = tmp_path / "swarms" / "friends.toml"
    file.write_text(file.read_text()[:-20])
    for line in (["run"], ["bootstrap"]):
        capsys.readouterr()
        assert run(monkeypatch, *line) == 3
        told = capsys.readouterr().err
        assert f"swarmnode: {file} is not valid TOML" in told
        assert told.count("\n") == 1
    assert run(monkeypatch, "swarm", "new", "others") == 0
    assert run(monkeypatch, "run") == 2, "which of the two is for people to say"
    capsys.readouterr()
    assert run(monkeypatch, "swarm", "leave", "friends", "--yes") == 0
    shown = capsys.readouterr()
    assert f"deletes  {file} (" in shown.err
    assert "a private swarm's key may be in it" in shown.err
    assert shown.out == "left friends\n"
    assert not file.exists()


def test_a_tracker_that_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("SWARMNODE_HOME", str(tmp_path))
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "wandb" else found(name)
    )
    assert run(monkeypatch, "run", "--solo", "--set", 'metrics.trackers=["wandb"]') == 3
    shown = capsys.readouterr().err
    assert "metrics.trackers names wandb, which is not installed; `pip install" in shown
    assert shown.count("\n") == 1


def test_a_second_number_of_trainer_processes_is_refused_under_torchrun(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    told |= {"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    # Or the end of whoever started these tests would end them.
    monkeypatch.setattr("swarmnode.process.die_with_parent", lambda _told: None)
    assert run(monkeypatch, "run", "--solo", "--set", "policy.trainer_processes=2") == 2
    shown = capsys.readouterr().err
    assert "torchrun has started 2 processes that train; leave policy.trainer_processes" in shown


def test_a_study_that_cannot_go_on_says_what_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    # Every process of swarmnode.worker ends as it begins, as for lack of memory.
    ends = "import os, sys\nif 'swarmnode.worker' in sys.orig_argv:\n    os._exit(9)\n"
    (tmp_path / "sitecustomize.py").write_text(ends)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    out = tmp_path / "out"
    small = ("--nodes", "1", "--rounds", "1", "--task", "gcd:default", "--out", str(out))
    assert run(monkeypatch, "simulate", *small) == 1
    assert "died during" in (told := capsys.readouterr().err)
    assert told.endswith("; its own message is above\n")
    (run_folder,) = (out / "runs").iterdir()
    shutil.rmtree(run_folder)
    run_folder.write_text("in the way")
    assert run(monkeypatch, "simulate", *small) == 1
    told = capsys.readouterr().err
    assert told.endswith(f"; finished runs are kept in {out}, make room and give the same command "
                         "with --out\n")  # fmt: skip


def test_a_real_swarm_whose_bootstrap_peer_does_not_start_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    home = Home(tmp_path / "out" / "bootstrap")
    home.make()
    home.key.write_text("no key")
    home.key.chmod(0o600)
    out = ("--out", str(tmp_path / "out"), "--task", "gcd:default")
    assert run(monkeypatch, "simulate", "--real", "--nodes", "1", "--rounds", "1", *out) == 1
    told = capsys.readouterr().err
    assert "the bootstrap peer does not answer; it said: swarmnode: " in told
    assert "holds no swarmnode key" in told
