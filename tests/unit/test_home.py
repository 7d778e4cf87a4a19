"""The home and its locks: one process works in it, and with its identity."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from swarmnode.home import Home, HomeError, HomeInUse, lock_identity
from swarmnode.paths import cache_folder, home_folder, locks_folder

KEY = bytes(range(32))

HOLDER = """
import sys
from pathlib import Path
from swarmnode.home import Home, lock_identity
home = Home(Path(sys.argv[1]))
held = lock_identity(bytes(range(32)), home.path, Path(sys.argv[2])), home.lock()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    home.make()
    return home


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


def start_holder(home: Home, locks: Path) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home.path), str(locks)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def end(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def test_the_environment_variable_moves_home_and_cache_together() -> None:
    environment = {"SWARMNODE_HOME": "/somewhere"}
    assert home_folder(environment) == Path("/somewhere")
    assert cache_folder(environment) == Path("/somewhere/cache")
    assert home_folder({}) != cache_folder({})
    assert locks_folder(7) != locks_folder(8)


def test_a_home_is_for_its_user_alone(home: Home) -> None:
    for folder in (home.path, home.swarms, home.checkpoints, home.log):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    home.make()


def test_a_home_that_cannot_be_made_gives_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="ascii")
    with pytest.raises(HomeError, match=r"Not a directory; choose another home") as caught:
        Home(tmp_path / "file" / "home").make()
    assert "\n" not in str(caught.value)


def test_a_second_process_is_refused_by_the_pid_of_the_first(home: Home, locks: Path) -> None:
    child = start_holder(home, locks)
    try:
        with pytest.raises(HomeInUse, match=r"SWARMNODE_HOME") as caught:
            home.lock()
        assert caught.value.pid == str(child.pid)
        assert f"in use by process {child.pid}:" in str(caught.value)
    finally:
        end(child)
    with home.lock():
        assert home.lock_file.read_text(encoding="utf-8").startswith(f"{os.getpid()}\n")


def test_a_lock_that_is_released_can_be_taken_again(home: Home) -> None:
    lock = home.lock()
    with pytest.raises(HomeInUse):
        home.lock()
    lock.release()
    lock.release()
    home.lock().release()


def test_the_same_identity_in_another_home_is_refused(
    home: Home, locks: Path, tmp_path: Path
) -> None:
    child = start_holder(home, locks)
    try:
        with pytest.raises(HomeInUse, match="swarmnode key rotate") as caught:
            lock_identity(KEY, tmp_path / "other", locks)
        assert f"as process {child.pid} with the home {home.path}:" in str(caught.value)
        lock_identity(bytes(32), tmp_path / "other", locks).release()
    finally:
        end(child)
    lock_identity(KEY, tmp_path / "other", locks).release()


def test_a_folder_of_locks_that_others_may_write_is_refused(home: Home, locks: Path) -> None:
    locks.mkdir()
    locks.chmod(0o777)
    with pytest.raises(HomeError, match="not a folder of this user alone"):
        lock_identity(KEY, home.path, locks)
    locks.rmdir()
    elsewhere = home.path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    locks.symlink_to(elsewhere)
    with pytest.raises(HomeError, match="not a folder of this user alone"):
        lock_identity(KEY, home.path, locks)


def test_an_instance_is_drawn_once_and_differs_by_home_and_machine(
    home: Home, tmp_path: Path
) -> None:
    machine = tmp_path / "machine-id"
    machine.write_text("one\n", encoding="ascii")
    first = home.instance(machine)
    assert len(first) == 16
    assert home.instance(machine) == first
    machine.write_text("two\n", encoding="ascii")
    assert home.instance(machine) != first
    assert home.instance(tmp_path / "absent") == home.instance(tmp_path / "absent")
    other = Home(tmp_path / "other")
    other.make()
    assert other.instance(machine) != home.instance(machine)


def test_a_damaged_instance_is_drawn_anew(home: Home, tmp_path: Path) -> None:
    first = home.instance(tmp_path)
    for damage in (b"", b"\xff", b"00", home.instance_file.read_bytes()[:-1]):
        home.instance_file.write_bytes(damage)
        drawn = home.instance(tmp_path)
        assert drawn not in {first, b""}
        assert home.instance(tmp_path) == drawn
