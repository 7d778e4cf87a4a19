"""Where weights in shared memory lie, who is there, and what is removed when nobody is.

A place is a folder of one trainer and its generators, beside those of other nodes. The file
`writer` is locked by the one who publishes, `readers` by all who take; where nobody holds either,
what is there was left behind by processes that were killed, and the next one to come removes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from swarmnode.paths import shared_memory_folder
from swarmnode.weights.channel import WeightsError
from swarmnode.weights.locks import LockedFile

_WRITER, _READERS, _DOOR = "writer", "readers", "door"


def place_of(home: Path, user: int) -> Path:
    """Return the place that belongs to a home."""
    name = hashlib.sha256(os.fsencode(home.absolute())).hexdigest()[:16]
    return shared_memory_folder(user) / name


def enter(place: Path, *, as_writer: bool) -> LockedFile:
    """Make the place if need be, sweep the others, and return the lock that says that one is there.

    Raises WeightsError where another one publishes there, or nobody may.
    """
    try:
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _require_own(place.parent)
        with _door(place.parent):
            _sweep(place.parent)
            place.mkdir(mode=0o700, exist_ok=True)
            lock = LockedFile(place / (_WRITER if as_writer else _READERS))
            # Before the next one enters and sweeps what nobody holds.
            if lock.lock(shared=not as_writer):
                return lock
    except OSError as error:
        raise WeightsError(
            f"{place} can't hold weights ({error.strerror}); set policy.weights.channel=folder and "
            "policy.weights.folder"
        ) from error
    lock.close()
    raise WeightsError(f"another process publishes weights in {place}; end that one first")


def enter_again(place: Path, lost: LockedFile, *, as_writer: bool) -> LockedFile:
    """The same for one whose lock was removed from under it. Raises WeightsError; `lost` is as it
    was then."""
    lock = enter(place, as_writer=as_writer)
    lost.close()
    return lock


def leave(place: Path, lock: LockedFile) -> None:
    """Give the lock back; the last one to leave takes the place away."""
    with contextlib.suppress(FileNotFoundError), _door(place.parent):
        lock.close()
        _sweep(place.parent)


def _require_own(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise WeightsError(
            f"{folder} is somebody else's, or open to others; remove it, or make it yours alone "
            "(mode 700)"
        )


@contextlib.contextmanager
def _door(parent: Path) -> Iterator[None]:
    """Nobody else enters or leaves meanwhile."""
    door = LockedFile(parent / _DOOR)
    door.wait()
    try:
        yield
    finally:
        door.close()


def _sweep(parent: Path) -> None:
    for place in parent.iterdir():
        if place.is_dir() and not _is_held(place / _WRITER) and not _is_held(place / _READERS):
            shutil.rmtree(place, ignore_errors=True)


def _is_held(path: Path) -> bool:
    try:
        file = LockedFile(path, make=False)
    except FileNotFoundError:
        return False
    try:
        return not file.lock(shared=False)
    finally:
        file.close()
