"""Weights through a folder: works across whatever lets two machines see one folder.

Each version is a safetensors file of its own, written under another name beside it and renamed once
it is whole; its name says its version and its writer's life. Versions before the last are removed
as soon as a newer one is whole; a reader in the middle of one goes on reading it, since it has it
open. Nothing is locked: one writer at a time is the caller's affair.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from swarmnode.files import synchronize
from swarmnode.weights import layout
from swarmnode.weights.channel import (
    Published,
    Taken,
    Tensors,
    WeightsDamaged,
    WeightsError,
    WeightsTorn,
)
from swarmnode.weights.checksum import Checksum
from swarmnode.weights.copying import put
from swarmnode.weights.layout import LENGTH_BYTES, Stamp
from swarmnode.weights.plan import Entry, Plan, as_bytes

_KEPT = 2
"""Versions that stay: the newest, and the one that somebody may be about to open."""
_PIECE_BYTES = 8 << 20


_OURS = re.compile(r"weights-(?P<version>\d{20})-(?P<life>[0-9a-f]{16})\.safetensors")
"""Names of what may be taken, and removed: other files of weights may lie beside."""
_TRIES = 10
"""Of a file that is listed and not there: more than a writer would remove meanwhile."""


def _name(version: int, life: str) -> str:
    return f"weights-{version:020d}-{life}.safetensors"


def _versions(folder: Path) -> list[tuple[int, str, Path]]:
    """What is whole: version, life, file; oldest first."""
    named = ((_OURS.fullmatch(path.name), path) for path in folder.glob("weights-*.safetensors"))
    return sorted((int(name["version"]), name["life"], path) for name, path in named if name)


class FolderOut:
    """The writer; one at a time in a folder."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Make the folder if need be, and remove what an earlier writer left half. WeightsError."""
        self._folder, self._plan = folder, plan
        self._life = secrets.token_hex(8)
        self._version = -1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for half in folder.glob(".weights-*"):
                half.unlink(missing_ok=True)
        except OSError as error:
            raise _unusable(folder, error) from error

    def publish(self, version: int, tensors: Iterable[tuple[str, Tensor]]) -> Published:
        """Write a file and rename it. See WeightsOut."""
        started = time.perf_counter()
        if version <= self._version:
            raise ValueError(f"version {version} after {self._version}")
        whole = Checksum()
        path = self._folder / _name(version, self._life)
        half = path.with_name(f".{path.name}")
        try:
            with half.open("wb") as file:
                self._write(file, version, tensors, whole)
                file.flush()
                os.fsync(file.fileno())
            half.replace(path)
            synchronize(self._folder)
        except OSError as error:
            raise _unusable(self._folder, error) from error
        finally:
            half.unlink(missing_ok=True)
        self._version = version
        self._remove_old()
        seconds = time.perf_counter() - started
        return Published(version, whole.digits, self._plan.bytes, seconds, whole.seconds)

    def close(self) -> None:
        """Nothing is held. What was published stays."""

    def _write(
        self,
        file: BinaryIO,
        version: int,
        tensors: Iterable[tuple[str, Tensor]],
        whole: Checksum,
    ) -> None:
        file.write(layout.encoded(self._plan, Stamp(version)))
        for _, tensor in self._plan.matched(tensors):
            piece = as_bytes(tensor).cpu()
            del tensor
            whole.add(piece)
            file.write(piece.numpy().data)
            del piece  # before the next one is gathered
        file.seek(0)
        file.write(layout.encoded(self._plan, Stamp(version, whole.digits, self._life)))

    def _remove_old(self) -> None:
        """Keep the last of our own; of an earlier writer nothing once ours is there."""
        own = [path for _, life, path in _versions(self._folder) if life == self._life]
        for _, _, path in _versions(self._folder):
            if path not in own[-_KEPT:]:
                path.unlink(missing_ok=True)


class FolderIn:
    """A reader; any number of them, on any machine, before a writer is there or after."""

    def __init__(self, folder: Path, base: str = "") -> None:
        """`base` is the fingerprint of what isn't sent. The folder need not be there yet."""
        self._folder, self._base = folder, base
        self._life: str | None = None

    def newest(self) -> int | None:
        """The highest version whose file is there. See WeightsIn."""
        found = _versions(self._folder)
        return found[-1][0] if found else None

    def take(self, into: Tensors, have: int) -> Taken | None:
        """Verify the newest file, then read it once more into its place. See WeightsIn.

        Two passes over the file, so that no copy of all weights is needed. WeightsTorn where it
        can't be read a second time.
        """
        started = time.perf_counter()
        for _ in range(_TRIES):
            if not (found := _versions(self._folder)):
                return None
            version, life, path = found[-1]
            if version <= have and self._life in (None, life):
                return None
            try:
                file = path.open("rb")
            except FileNotFoundError:
                continue  # a newer one is there
            except OSError as error:
                raise _unusable(self._folder, error) from error
            with file:
                plan, stamp, seconds = self._verified(file, into)
                if (stamp.version, stamp.life) != (version, life):
                    raise WeightsDamaged(f"{path} holds other weights than it says")
                self._fill(file, plan, into)
            self._life = life
            total = time.perf_counter() - started
            return Taken(version, stamp.checksum, plan.bytes, total, seconds)
        raise WeightsError(f"{path} is listed and can't be opened; is it a link to nothing?")

    def close(self) -> None:
        """Nothing is held."""

    def _verified(self, file: BufferedReader, into: Tensors) -> tuple[Plan, Stamp, float]:
        """The plan, the stamp, and the seconds that the checksum took; the file is at the first
        tensor's byte after."""
        try:
            size = os.fstat(file.fileno()).st_size
            length = layout.header_bytes(file.read(LENGTH_BYTES), size)
            plan, stamp = layout.decoded(file.read(length))
            plan.require(into, self._base)
            whole = Checksum()
            for _, _, piece in _pieces(file, plan):
                whole.add(piece)
            file.seek(LENGTH_BYTES + length)
        except OSError as error:
            raise _unusable(self._folder, error) from error
        if whole.digits != stamp.checksum:
            raise WeightsDamaged(
                f"version {stamp.version} of the weights is damaged: the checksum of what is "
                f"there is {whole.digits}, of what was sent {stamp.checksum}"
            )
        return plan, stamp, whole.seconds

    def _fill(self, file: BufferedReader, plan: Plan, into: Tensors) -> None:
        try:
            for entry, start, piece in _pieces(file, plan):
                put(into[entry.name], start, piece)
        except (OSError, WeightsDamaged) as error:
            raise WeightsTorn(f"{self._folder} could not be read to its end: {error}") from error


def _pieces(file: BufferedReader, plan: Plan) -> Iterator[tuple[Entry, int, Tensor]]:
    """Read the tensors in pieces: entry, bytes of it before the piece, piece. One at a time: the
    next one takes its memory. WeightsDamaged where the file ends early."""
    memory = torch.empty(_PIECE_BYTES, dtype=torch.uint8)
    for entry in plan.entries:
        for start in range(0, entry.bytes, _PIECE_BYTES):
            piece = memory[: min(_PIECE_BYTES, entry.bytes - start)]
            if file.readinto(piece.numpy().data) != len(piece):
                raise WeightsDamaged("the weights are damaged: their file ends early")
            yield entry, start, piece


def _unusable(folder: Path, error: OSError) -> WeightsError:
    return WeightsError(
        f"{folder} can't carry weights ({error.strerror}); make room there, or set "
        "policy.weights.folder to another one"
    )
