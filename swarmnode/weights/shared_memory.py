"""Weights through memory that processes of one machine share: two buffers that take turns.

A buffer is a file in memory with the layout of layout.py; the small file `current` says which of
the two is whole, and is replaced in one step once the other one is. A reader locks the buffer that
it reads, the writer the one that it writes: nobody reads what is being written, and no order of
memory accesses is relied upon. Neither waits: a reader that comes too late takes what is newer by
then, and a writer that finds its next buffer still read leaves it to the reader and makes another
in its stead, so that more than two exist only as long as somebody is that slow.

Others may remove what lies in memory: systemd-logind does so with all that a user has there when
the last session ends (RemoveIPC). Who finds the place gone makes it anew, and the next publication
is taken from there; until then readers keep what they have.

Locks are the kernel's and end with their holders; what a killed one leaves behind is removed by the
next to come (places.py). A writer that is killed in the middle leaves the version before takeable.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from swarmnode.files import write_atomically
from swarmnode.weights import layout, places
from swarmnode.weights.buffers import Buffer
from swarmnode.weights.channel import Published, Taken, Tensors, WeightsDamaged, WeightsError
from swarmnode.weights.checksum import Checksum
from swarmnode.weights.copying import fill, split
from swarmnode.weights.layout import LENGTH_BYTES, Stamp
from swarmnode.weights.plan import Plan, as_bytes

_CURRENT = "current"


@dataclass(frozen=True, slots=True)
class _Current:
    """What `current` says."""

    buffer: str
    version: int
    checksum: str
    life: str

    @property
    def stamp(self) -> Stamp:
        return Stamp(self.version, self.checksum, self.life)


class SharedMemoryOut:
    """The writer; one at a time in a place."""

    def __init__(self, place: Path, plan: Plan) -> None:
        """Come to the place, and remove what an earlier writer left. WeightsError."""
        self._place, self._plan = place, plan
        self._life = secrets.token_hex(8)
        self._header_bytes = len(layout.encoded(plan, Stamp(0)))
        self._version = -1
        self._buffers: dict[int, Buffer] = {}
        self._turn = 0
        self._lock = places.enter(place, as_writer=True)
        self._clear()

    def publish(self, version: int, tensors: Iterable[tuple[str, Tensor]]) -> Published:
        """Fill the buffer that is not current, then make it so. See WeightsOut."""
        started = time.perf_counter()
        if version <= self._version:
            raise ValueError(f"version {version} after {self._version}")
        if not self._lock.is_there:
            self._lock = places.enter_again(self._place, self._lock, as_writer=True)
            self._forget()
        whole = Checksum()
        buffer = self._next_buffer()
        try:
            self._write(buffer, tensors, whole)
            stamp = Stamp(version, whole.digits, self._life)
            self._write_header(buffer, stamp)
        finally:
            buffer.file.unlock()
        current = _Current(f"buffer-{self._turn}", version, whole.digits, self._life)
        self._announce(current)
        self._version, self._turn = version, 1 - self._turn
        seconds = time.perf_counter() - started
        return Published(version, whole.digits, self._plan.bytes, seconds, whole.seconds)

    def close(self) -> None:
        """Leave, and take the buffers along: nothing can be taken after."""
        self._forget()
        places.leave(self._place, self._lock)

    def _forget(self) -> None:
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()
        self._clear()

    def _clear(self) -> None:
        for name in (_CURRENT, "buffer-0", "buffer-1"):
            (self._place / name).unlink(missing_ok=True)

    def _next_buffer(self) -> Buffer:
        """The buffer whose turn it is, locked for us alone."""
        buffer = self._buffers.get(self._turn)
        if buffer is not None and buffer.file.is_there and buffer.file.lock(shared=False):
            return buffer
        path = self._place / f"buffer-{self._turn}"
        path.unlink(missing_ok=True)
        if buffer is not None:
            self._buffers.pop(self._turn).close()
        size = self._header_bytes + self._plan.bytes
        try:
            buffer = Buffer(path, make_bytes=size)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise WeightsError(
                f"{self._place} has no room for {size >> 20} MiB of weights ({error.strerror}): "
                "two copies of them must fit; enlarge it (docker run --shm-size), or set "
                "policy.weights.channel=folder"
            ) from error
        self._buffers[self._turn] = buffer
        buffer.file.lock(shared=False)
        return buffer

    def _announce(self, current: _Current) -> None:
        try:
            write_atomically(self._place / _CURRENT, json.dumps(asdict(current)), secret=True)
        except OSError as error:
            raise WeightsError(
                f"{self._place / _CURRENT} can't be written ({error.strerror})"
            ) from error

    @torch.no_grad()
    def _write(
        self, buffer: Buffer, tensors: Iterable[tuple[str, Tensor]], whole: Checksum
    ) -> None:
        pieces = iter(split(buffer.data[self._header_bytes :], self._plan))
        for _, tensor in self._plan.matched(tensors):
            piece = next(pieces)
            piece.copy_(as_bytes(tensor))
            del tensor  # before the next one is gathered
            whole.add(piece)  # while a cache may have it

    def _write_header(self, buffer: Buffer, stamp: Stamp) -> None:
        header = bytearray(layout.encoded(self._plan, stamp))
        buffer.data[: len(header)].copy_(torch.frombuffer(header, dtype=torch.uint8))


class SharedMemoryIn:
    """A reader; any number of them, before a writer is there or after."""

    def __init__(self, place: Path, base: str = "") -> None:
        """Come to the place. `base` is the fingerprint of what isn't sent. WeightsError."""
        self._place, self._base = place, base
        self._life: str | None = None
        self._plan: tuple[str, Plan, int] | None = None
        self._buffers: dict[str, Buffer] = {}
        self._lock = places.enter(place, as_writer=False)

    def newest(self) -> int | None:
        """The version of the current buffer. See WeightsIn."""
        current = self._current()
        return None if current is None else current.version

    def take(self, into: Tensors, have: int) -> Taken | None:
        """Verify the current buffer, then copy it. See WeightsIn; never raises WeightsTorn."""
        started = time.perf_counter()
        if not self._lock.is_there:
            self._lock = places.enter_again(self._place, self._lock, as_writer=False)
        current = self._current()
        while current is not None:
            if current.version <= have and self._life in (None, current.life):
                return None
            with self._locked(current) as buffer:
                # What is current is not written to; and what is locked won't be from here on.
                if buffer is not None and self._current() == current:
                    taken = self._copied(buffer, current, into)
                    self._life = current.life
                    return replace(taken, seconds=time.perf_counter() - started)
            earlier, current = current, self._current()
            if current == earlier:
                raise WeightsDamaged(f"{self._place / earlier.buffer} was removed, or is locked")
        return None

    def close(self) -> None:
        """Leave; the last one takes the place away."""
        for buffer in self._buffers.values():
            buffer.close()
        self._buffers.clear()
        places.leave(self._place, self._lock)

    def _current(self) -> _Current | None:
        try:
            text = (self._place / _CURRENT).read_text("utf-8")
            return _Current(**json.loads(text))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise WeightsDamaged(f"{self._place / _CURRENT} is damaged") from error

    @contextlib.contextmanager
    def _locked(self, current: _Current) -> Iterator[Buffer | None]:
        """The buffer that is meant, locked while entered; None where it's gone or being written."""
        buffer = self._buffers.get(current.buffer)
        if buffer is not None and not buffer.file.is_there:
            self._buffers.pop(current.buffer).close()
            buffer = None
        if buffer is None:
            try:
                buffer = Buffer(self._place / current.buffer)
            except (FileNotFoundError, ValueError):  # removed, or as yet without room
                yield None
                return
            self._buffers[current.buffer] = buffer
        if not buffer.file.lock(shared=True):
            yield None
            return
        try:
            yield buffer
        finally:
            buffer.file.unlock()

    def _copied(self, buffer: Buffer, current: _Current, into: Tensors) -> Taken:
        plan, start = self._plan_of(buffer, current)
        plan.require(into, self._base)
        data = buffer.data[start : start + plan.bytes]
        whole = Checksum()
        whole.add(data)
        if whole.digits != current.checksum:
            raise WeightsDamaged(
                f"version {current.version} of the weights is damaged: the checksum of what is "
                f"there is {whole.digits}, of what was sent {current.checksum}"
            )
        fill(into, plan, data)
        return Taken(current.version, current.checksum, plan.bytes, 0.0, whole.seconds)

    def _plan_of(self, buffer: Buffer, current: _Current) -> tuple[Plan, int]:
        """The plan, and where the first tensor begins; a writer has one plan all its life."""
        if self._plan is None or self._plan[0] != current.life:
            length = layout.header_bytes(_raw(buffer.data[:LENGTH_BYTES]), len(buffer.data))
            start = LENGTH_BYTES + length
            plan, stamp = layout.decoded(_raw(buffer.data[LENGTH_BYTES:start]))
            if stamp != current.stamp:
                path = self._place / current.buffer
                raise WeightsDamaged(f"{path} holds other weights than said")
            self._plan = current.life, plan, start
        return self._plan[1:]


def _raw(data: Tensor) -> bytes:
    return data.numpy().tobytes()
