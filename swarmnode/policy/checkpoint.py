"""Checkpoint folders: each is whole or it is not there, and a damaged one is never used.

A folder `step-N.tmp-RANDOM` is filled, every file synchronized, then MANIFEST.json (name, size and
SHA-256 of each file) as the last one, then the folder; only then it becomes `step-N`. So a process
or a machine may stop at any moment. Loading goes from the newest to the oldest until one agrees
with its manifest. Damaged ones are renamed `step-N.bad` and never deleted; good ones are deleted
only when KEPT newer ones, the newest included, were read again and verified.

Knows files and bytes, not what they hold; imports no torch. One process at a time may save into a
folder: the caller holds a lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from swarmnode.files import synchronize

MANIFEST = "MANIFEST.json"
KEPT = 3
"""Verified checkpoints that are kept."""
SPACE_FACTOR = 1.2
"""Free bytes that must be there before a save, per byte that it will write."""

_FORMAT = 1
_FINISHED = re.compile(r"step-(\d+)")
_NUMBERED = re.compile(r"step-(\d+)(\.bad)?")
_UNFINISHED = re.compile(r"step-\d+\.tmp-\w+")


class CheckpointError(Exception):
    """A checkpoint could not be written, read or used; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A checkpoint that was passed over."""

    name: str
    """Its folder's name before it was set aside."""
    reason: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint that was written, read again and verified."""

    path: Path
    size: int
    """Bytes of its files, the manifest included."""
    rejected: Sequence[Rejected]
    """Older checkpoints that turned out to be damaged meanwhile."""


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest checkpoint that agrees with its manifest, if any, and what was passed over."""

    path: Path | None
    rejected: Sequence[Rejected]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line of the manifest."""

    name: str
    size: int
    sha256: str


def save_checkpoint(
    folder: Path, least_number: int, expected_bytes: int, write: Callable[[Path], None]
) -> Saved:
    """Let `write` fill an empty folder and make it the newest checkpoint of `folder`.

    Its number is `least_number`, or the next one if there is a checkpoint of that number or a
    higher one. `write` makes plain files of about `expected_bytes` in all and raises OSError where
    it cannot. Raises CheckpointError; the earlier checkpoints are untouched then.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        synchronize(folder.parent)
        _sweep(folder)
        _check_space(folder, expected_bytes)
        path = _written(folder, max(least_number, _highest_number(folder) + 1), write)
        size = sum(file.stat().st_size for file in path.iterdir())
    except OSError as error:
        raise CheckpointError(
            f"no checkpoint was written to {folder}: {_text(error)}; the earlier ones are untouched"
        ) from error
    verified, unreadable, rejected = _surveyed(folder, KEPT)
    if path not in verified:
        reasons = {each.name: each.reason for each in [*rejected, *unreadable]}
        raise CheckpointError(f"{path} is not what was written: {reasons[path.name]}")
    if len(verified) == KEPT:
        oldest = _number(verified[-1])
        for old in _finished(folder):
            if _number(old) < oldest:
                _delete(old)
    return Saved(path, size, [*rejected, *unreadable])


def newest_checkpoint(folder: Path) -> Newest:
    """Find the newest checkpoint that agrees with its manifest; set damaged newer ones aside.

    Raises CheckpointError when there is none but some could not be read at all (too many open
    files, say): to start anew would be wrong then.
    """
    verified, unreadable, rejected = _surveyed(folder, 1)
    if not verified and unreadable:
        raise CheckpointError(f"no checkpoint can be read: {unreadable[0].reason}")
    return Newest(verified[0] if verified else None, [*rejected, *unreadable])


def sound_checkpoint(folder: Path, number: int | None = None) -> Path:
    """Return the newest checkpoint that agrees with its manifest, or the one of that number.

    For a reader beside the process that saves: nothing is changed, a damaged one stays where it
    is. Raises CheckpointError when there is none.
    """
    found = [path for path in _finished(folder) if number in (None, _number(path))]
    for path in found:
        with contextlib.suppress(OSError):
            if fault_of(path) is None:
                return path
    if found:
        raise CheckpointError(f"{found[0]} is damaged; take another one")
    known = ", ".join(str(_number(path)) for path in _finished(folder))
    there = f"there are {known}" if known else "it has none yet"
    which = "checkpoint" if number is None else f"checkpoint {number}"
    raise CheckpointError(f"{folder} has no {which}: {there}")


def _written(folder: Path, number: int, write: Callable[[Path], None]) -> Path:
    temporary = Path(tempfile.mkdtemp(prefix=f"step-{number}.tmp-", dir=folder))
    final = folder / f"step-{number}"
    try:
        write(temporary)
        files = sorted(temporary.iterdir())
        for file in files:
            synchronize(file)
        manifest = temporary / MANIFEST
        manifest.write_bytes(_encoded([_entry(file) for file in files]))
        synchronize(manifest)
        synchronize(temporary)
        os.rename(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    synchronize(folder)
    return final


def _surveyed(folder: Path, count: int) -> tuple[list[Path], list[Rejected], list[Rejected]]:
    """Up to `count` verified checkpoints, newest first; what was unreadable; what was damaged."""
    verified: list[Path] = []
    unreadable: list[Rejected] = []
    damaged: list[Rejected] = []
    for path in _finished(folder):
        if len(verified) == count:
            break
        try:
            fault = fault_of(path)
        except OSError as error:
            unreadable.append(Rejected(path.name, f"{path} cannot be read: {_text(error)}"))
            continue
        if fault is None:
            verified.append(path)
        else:
            damaged.append(Rejected(path.name, _set_aside(path, fault)))
    return verified, unreadable, damaged


def fault_of(path: Path) -> str | None:
    """What is damaged in a checkpoint; OSError when it cannot be read for another reason."""
    try:
        for listed in _decoded((path / MANIFEST).read_bytes()):
            if (path / listed.name).stat().st_size != listed.size:
                return f"{listed.name} has not the size that the manifest says"
            if _entry(path / listed.name) != listed:
                return f"{listed.name} is not what the manifest says"
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is missing"
    except ValueError:
        return f"{MANIFEST} is damaged"
    return None


def _set_aside(path: Path, fault: str) -> str:
    """Rename a damaged checkpoint; the reason for the report."""
    target = path.with_name(f"{path.name}.bad")
    try:
        os.rename(path, target)
    except OSError as error:
        return f"{fault}; it could not be renamed to {target.name}: {_text(error)}"
    return f"{fault}; it is now {target.name}"


def _delete(path: Path) -> None:
    # Renamed first: a half-deleted folder must not look like a damaged checkpoint. What cannot be
    # deleted now is tried again by the next save.
    with contextlib.suppress(OSError):
        renamed = path.rename(path.with_name(f"{path.name}.tmp-deleted"))
        synchronize(path.parent)
        shutil.rmtree(renamed)


def _sweep(folder: Path) -> None:
    for path in folder.iterdir():
        if _UNFINISHED.fullmatch(path.name) and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def _check_space(folder: Path, expected_bytes: int) -> None:
    needed, free = SPACE_FACTOR * expected_bytes, shutil.disk_usage(folder).free
    if free < needed:
        raise CheckpointError(
            f"no checkpoint was written to {folder}: it needs {needed / 1e6:.1f} MB of free space"
            f" and the disk has {free / 1e6:.1f} MB; the earlier ones are untouched"
        )


def _finished(folder: Path) -> list[Path]:
    """The checkpoints of a folder, verified or not, newest first."""
    try:
        names = [name for name in os.listdir(folder) if _FINISHED.fullmatch(name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be read: {_text(error)}") from error
    return sorted((folder / name for name in names), key=_number, reverse=True)


def _number(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _highest_number(folder: Path) -> int:
    """The highest number ever used, damaged checkpoints included; -1 where there is none."""
    matches = [_NUMBERED.fullmatch(path.name) for path in folder.iterdir()]
    return max((int(match[1]) for match in matches if match), default=-1)


def _entry(file: Path) -> _Entry:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
        return _Entry(file.name, opened.tell(), digest)


def _encoded(entries: Sequence[_Entry]) -> bytes:
    document = {"format": _FORMAT, "files": [asdict(entry) for entry in entries]}
    return json.dumps(document, indent=1).encode() + b"\n"


def _decoded(data: bytes) -> list[_Entry]:
    """The manifest's lines; ValueError for every text that `_encoded` does not give."""
    try:
        document = json.loads(data)
        entries = [_Entry(**fields) for fields in document["files"]]
        sound = _encoded(entries) == data
        sound = sound and all(Path(entry.name).name == entry.name for entry in entries)
    except (TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not sound:
        raise ValueError("not a manifest")
    return entries


def _text(error: OSError) -> str:
    return error.strerror or str(error)
