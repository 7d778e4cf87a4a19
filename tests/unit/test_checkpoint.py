"""Checkpoint folders: the newest sound one is found, damage and failing disks cost nothing else."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from swarmnode.policy.checkpoint import (
    KEPT,
    MANIFEST,
    CheckpointError,
    Newest,
    newest_checkpoint,
    save_checkpoint,
)
from tests.unit.checkpoint_support import FILES, limited, names, save


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


def test_what_cannot_be_read_now_is_not_deleted_by_a_save(tmp_path: Path) -> None:
    manifest = save(tmp_path, 1).path / MANIFEST
    manifest.unlink()
    manifest.symlink_to(MANIFEST)
    assert [each.name for each in save(tmp_path, 2).rejected] == ["step-1"]
    assert names(tmp_path) == ["step-1", "step-2"]


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
