"""Checkpoint folders: whole or not there, whatever stops the process, the disk or the machine."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from swarmnode.policy.checkpoint import (
    KEPT,
    MANIFEST,
    CheckpointError,
    Newest,
    Saved,
    newest_checkpoint,
    save_checkpoint,
)

FILES = ("first.bin", "second.bin")


def save(folder: Path, number: int = 0, size: int = 5000) -> Saved:
    """A checkpoint whose content follows from the number that is asked for."""

    def write(temporary: Path) -> None:
        for name in FILES:
            (temporary / name).write_bytes(random.Random(f"{number}/{name}").randbytes(size))

    return save_checkpoint(folder, number, len(FILES) * size, write)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def found(newest: Newest) -> str | None:
    return None if newest.path is None else newest.path.name


def test_the_newest_of_several_checkpoints_is_found_whatever_the_order_of_the_folder(
    tmp_path: Path,
) -> None:
    assert newest_checkpoint(tmp_path / "missing") == Newest(None, [])
    for number in (8, 9, 10):
        saved = save(tmp_path, number)
        assert saved.size == sum(file.stat().st_size for file in saved.path.iterdir())
    assert newest_checkpoint(tmp_path) == Newest(tmp_path / "step-10", [])


def test_a_number_is_never_used_twice(tmp_path: Path) -> None:
    assert [save(tmp_path, number).path.name for number in (4, 4, 3, 7)] == [
        "step-4",
        "step-5",
        "step-6",
        "step-7",
    ]
    (tmp_path / "step-7" / FILES[0]).unlink()
    assert found(newest_checkpoint(tmp_path)) == "step-6"
    assert save(tmp_path, 6).path.name == "step-8"


def test_three_verified_checkpoints_are_kept_and_damaged_ones_do_not_count(tmp_path: Path) -> None:
    for number in range(1, 5):
        save(tmp_path, number)
    assert names(tmp_path) == ["step-2", "step-3", "step-4"]
    (tmp_path / "step-3" / FILES[1]).write_bytes(b"damaged")
    saved = save(tmp_path, 5)
    assert [each.name for each in saved.rejected] == ["step-3"]
    assert names(tmp_path) == ["step-2", "step-3.bad", "step-4", "step-5"]
    save(tmp_path, 6)
    assert names(tmp_path) == ["step-3.bad", "step-4", "step-5", "step-6"]
    assert (tmp_path / "step-3.bad" / FILES[1]).read_bytes() == b"damaged"
    assert KEPT == 3


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: (path / FILES[0]).unlink(), "first.bin is missing"),
        (lambda path: (path / MANIFEST).unlink(), "MANIFEST.json is missing"),
        (lambda path: (path / FILES[1]).write_bytes(b""), "second.bin has not the size"),
        (lambda path: (path / FILES[1]).write_bytes(bytes(5000)), "second.bin is not what"),
        (lambda path: (path / MANIFEST).write_text("[]\n"), "MANIFEST.json is damaged"),
        (lambda path: (path / MANIFEST).write_text("[" * 100_000), "MANIFEST.json is damaged"),
        (
            lambda path: (path / MANIFEST).write_text(
                (path / MANIFEST).read_text().replace("first.bin", "../step-1/first.bin")
            ),
            "MANIFEST.json is damaged",
        ),
        (
            lambda path: (path / MANIFEST).write_text(
                json.dumps(json.loads((path / MANIFEST).read_text()) | {"format": 2}, indent=1)
            ),
            "MANIFEST.json is damaged",
        ),
    ],
)
def test_a_damaged_checkpoint_is_set_aside_with_its_reason_and_the_previous_one_is_used(
    tmp_path: Path, damage: object, reason: str
) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert callable(damage)
    damage(tmp_path / "step-2")
    newest = newest_checkpoint(tmp_path)
    assert newest.path == tmp_path / "step-1"
    assert [each.name for each in newest.rejected] == ["step-2"]
    assert newest.rejected[0].reason.startswith(reason)
    assert newest.rejected[0].reason.endswith("it is now step-2.bad")
    assert names(tmp_path) == ["step-1", "step-2.bad"]
    assert newest_checkpoint(tmp_path) == Newest(tmp_path / "step-1", [])


def test_when_all_are_damaged_none_is_used_and_all_are_told(tmp_path: Path) -> None:
    for path in [save(tmp_path, number).path for number in (1, 2)]:
        (path / MANIFEST).unlink()
    newest = newest_checkpoint(tmp_path)
    assert newest.path is None
    assert [each.name for each in newest.rejected] == ["step-2", "step-1"]
    assert names(tmp_path) == ["step-1.bad", "step-2.bad"]


def test_what_merely_cannot_be_read_now_is_passed_over_but_stays(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    manifest = tmp_path / "step-2" / MANIFEST
    manifest.unlink()
    manifest.symlink_to(MANIFEST)
    newest = newest_checkpoint(tmp_path)
    assert newest.path == tmp_path / "step-1"
    assert "step-2 cannot be read" in newest.rejected[0].reason
    assert names(tmp_path) == ["step-1", "step-2"]
    shutil.rmtree(tmp_path / "step-1")
    with pytest.raises(CheckpointError, match="no checkpoint can be read"):
        newest_checkpoint(tmp_path)


@contextmanager
def limited(kind: int, value: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def test_too_many_open_files_never_make_it_start_anew(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with limited(resource.RLIMIT_NOFILE, 3), pytest.raises(CheckpointError, match="open files"):
        newest_checkpoint(tmp_path)
    assert found(newest_checkpoint(tmp_path)) == "step-1"


def test_leftovers_of_a_save_that_was_stopped_are_swept_by_the_next_one(tmp_path: Path) -> None:
    save(tmp_path, 1)
    for leftover in ("step-2.tmp-x1_y", "step-1.tmp-deleted"):
        (tmp_path / leftover).mkdir()
        (tmp_path / leftover / FILES[0]).write_bytes(b"half")
    (tmp_path / "notes.tmp-mine").mkdir()
    assert found(newest_checkpoint(tmp_path)) == "step-1"
    save(tmp_path, 2)
    assert names(tmp_path) == ["notes.tmp-mine", "step-1", "step-2"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_disk_that_fails_while_writing_costs_the_new_checkpoint_only(
    tmp_path: Path, code: int
) -> None:
    for number in (1, 2, 3):
        save(tmp_path, number)

    def write(temporary: Path) -> None:
        (temporary / FILES[0]).write_bytes(b"half")
        raise OSError(code, os.strerror(code))

    with pytest.raises(CheckpointError, match=os.strerror(code)) as raised:
        save_checkpoint(tmp_path, 4, 100, write)
    assert "\n" not in str(raised.value)
    assert names(tmp_path) == ["step-1", "step-2", "step-3"]


def test_a_limit_on_file_sizes_costs_the_new_checkpoint_only(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with (
        limited(resource.RLIMIT_FSIZE, 4096),
        pytest.raises(CheckpointError, match="File too large"),
    ):
        save(tmp_path, 2)
    assert names(tmp_path) == ["step-1"]


def test_too_little_free_space_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, size=500_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1_199_999))
    with pytest.raises(CheckpointError, match=r"needs 1\.2 MB of free space .* has 1\.2 MB"):
        save(tmp_path, 2, size=500_000)
    assert names(tmp_path) == ["step-1"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1_200_000))
    save(tmp_path, 2, size=500_000)


def test_a_disk_that_keeps_something_else_deletes_no_older_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2, 3):
        save(tmp_path, number)
    rename = os.rename

    def damaging(source: Path, target: Path) -> None:
        rename(source, target)
        if target.name == "step-4":
            (target / FILES[0]).write_bytes(bytes(5000))

    monkeypatch.setattr(os, "rename", damaging)
    with pytest.raises(CheckpointError, match=r"step-4 is not what was written: first\.bin"):
        save(tmp_path, 4)
    assert names(tmp_path) == ["step-1", "step-2", "step-3", "step-4.bad"]


class PowerCut(BaseException):
    """The machine stops."""


class FailingMachine:
    """Stops at the k-th fsync or rename, and forgets what was not synchronized by then."""

    def __init__(self, folder: Path, stop_at: int) -> None:
        self._folder = folder
        self._left = stop_at
        self._fsync, self._rename, self._rmtree = os.fsync, os.rename, shutil.rmtree
        self._kept: dict[int, int | set[str]] = {}
        self._unsure: list[tuple[Path, Path]] = []
        for path in [folder, *folder.rglob("*")]:
            self._keep(path)

    def _keep(self, path: Path) -> None:
        status = path.stat()
        content = set(os.listdir(path)) if path.is_dir() else status.st_size
        self._kept[status.st_ino] = content

    def _count(self) -> None:
        self._left -= 1
        if self._left <= 0:
            raise PowerCut

    def fsync(self, descriptor: int) -> None:
        self._count()
        self._fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        self._keep(path)
        if path == self._folder:
            self._unsure.clear()

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        self._rename(source, target)
        self._unsure.append((source, target))

    def rmtree(self, path: Path, ignore_errors: bool = False) -> None:
        self._count()
        self._rmtree(path, ignore_errors)

    def forget(self, *, renames_survive: bool) -> None:
        """Leave on the disk what a power cut would, in the worst case."""
        for source, target in reversed(self._unsure):
            if not renames_survive and target.exists():
                self._rename(target, source)
        for path in sorted(self._folder.rglob("*"), reverse=True):
            within = self._kept.get(path.parent.stat().st_ino, set())
            assert isinstance(within, set)
            content = self._kept.get(path.stat().st_ino)
            if path.parent != self._folder and path.name not in within:
                path.unlink()
            elif path.is_file() and content is None:
                os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("renames_survive", [True, False])
def test_a_power_cut_at_any_moment_leaves_only_sound_checkpoints_and_never_fewer_than_three(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames_survive: bool
) -> None:
    outcomes = []
    for moment in range(1, 20):
        folder = tmp_path / str(moment)
        for number in (1, 2, 3):
            save(folder, number)
        machine = FailingMachine(folder, moment)
        completed = False
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", machine.fsync)
            patched.setattr(os, "rename", machine.rename)
            patched.setattr(shutil, "rmtree", machine.rmtree)
            try:
                save(folder, 4)
                completed = True
            except PowerCut:
                pass
        machine.forget(renames_survive=renames_survive)
        newest = newest_checkpoint(folder)
        assert newest.rejected == []
        assert newest.path is not None
        assert len([name for name in names(folder) if name.startswith("step-")]) >= 3
        for path in folder.glob("step-?"):
            assert names(path) == sorted([*FILES, MANIFEST])
        outcomes.append((completed, newest.path.name))
    assert (False, "step-3") in outcomes
    assert outcomes[-1] == (True, "step-4")
    assert (True, "step-3") not in outcomes


SAVING_CHILD = """
import sys
from pathlib import Path
from swarmnode.policy.checkpoint import save_checkpoint

def write(temporary):
    for name in "ab":
        (temporary / name).write_bytes(bytes(500_000))

number = 0
while True:
    number += 1
    save_checkpoint(Path(sys.argv[1]), number, 1_000_000, write)
    print(number, flush=True)
"""


def test_a_saving_process_may_be_killed_at_any_moment(tmp_path: Path) -> None:
    moments = random.Random(5)
    leftovers = 0
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        command = [sys.executable, "-c", SAVING_CHILD, str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            child.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(moments.uniform(0.0, 0.05))
            child.kill()
            completed = 1 + len(child.stdout.read().splitlines())
        leftovers += any(".tmp-" in name for name in names(folder))
        newest = newest_checkpoint(folder)
        assert newest.rejected == []
        assert newest.path in {folder / f"step-{number}" for number in (completed, completed + 1)}
        save(folder)
        assert not any(".tmp-" in name for name in names(folder))
    assert leftovers > 0
