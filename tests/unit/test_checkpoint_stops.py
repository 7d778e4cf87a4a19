"""Checkpoints when the process or the whole machine stops at any moment of a save."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swarmnode.policy.checkpoint import MANIFEST, newest_checkpoint
from tests.unit.checkpoint_support import FILES, names, save


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
        try:
            self._count()
        except PowerCut:
            next(iter(Path(path).iterdir())).unlink()
            raise
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


def test_the_folder_of_the_first_checkpoint_is_synchronized_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synchronized: list[str] = []
    monkeypatch.setattr(
        os, "fsync", lambda each: synchronized.append(os.readlink(f"/proc/self/fd/{each}"))
    )
    save(tmp_path / "checkpoints")
    assert synchronized[0] == str(tmp_path)
    assert synchronized[-1] == str(tmp_path / "checkpoints")


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
        newest = newest_checkpoint(folder)
        assert newest.rejected == []
        assert newest.path in {folder / f"step-{number}" for number in (completed, completed + 1)}
        save(folder)
        assert not any(".tmp-" in name for name in names(folder))
