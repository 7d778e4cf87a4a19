"""Weights by torch.distributed: gloo where they are in memory, NCCL where they are on CUDA.

The trainer is rank 0, the generators that an update goes to are the ranks after it: they may be
other ones each time, and who comes back is met in a new group. Parameters are streamed (stream.py)
through two buffers that take turns: while one is on its way, the other is filled, or emptied into
its places. So each side needs two buffers and one parameter beside its model, whatever its size.
Large parameters that are in memory anyway need no packing: gloo sends them from where they lie.

Unlike the other channels this one needs everybody at once: `publish` waits for all generators to
come to the end of a batch, up to the timeout, and nothing can be taken between two publications. A
generator that comes back has to wait for the next, or for one to itself. Groups are made of their
own store: whatever else a process does with torch.distributed is left alone.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.distributed import Work

from swarmnode.weights import layout, stream
from swarmnode.weights.channel import (
    Published,
    WeightsError,
    WeightsMismatch,
)
from swarmnode.weights.checksum import Checksum
from swarmnode.weights.layout import Stamp
from swarmnode.weights.meeting import Address, Group, Meeting, Offer, broadcast, first_line
from swarmnode.weights.plan import Plan

OK, GO = "ok", "go"
DEFAULT_BUFFER_BYTES = 1 << 30
_DIRECT_BYTES = 2 << 20
"""From here on a broadcast of its own costs less than a copy on either side."""


class BroadcastOut:
    """The trainer's side, rank 0."""

    def __init__(
        self,
        address: Address,
        generators: int,
        plan: Plan,
        *,
        device: torch.device | str = "cpu",
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        verify: bool = True,
        gathered: bool = False,
    ) -> None:
        """Serve the address (port 0 is any that is free). `generators` take part in an update,
        those numbered from 1 on, unless it is published to others.

        `verify` sums up all bytes on both sides, for which CUDA copies them to memory. Tensors that
        are `gathered` for each publication are let go of as soon as they are packed; others may be
        sent from where they lie. Raises WeightsError.
        """
        self._meeting = Meeting(address, serve=True)
        self._generators, self._plan = generators, plan
        self._device, self._verify = torch.device(device), verify
        self._life = secrets.token_hex(8)
        self._version, self._attempt, self._group_number = -1, 0, 0
        self._group: Group | None = None
        self._members: list[int] = []
        self._direct = 0 if gathered or self._device.type != "cpu" else _DIRECT_BYTES
        size = stream.buffer_bytes(plan, buffer_bytes)
        self._buffers = stream.two_buffers(size, self._device)
        self._meeting.tell("plan", layout.encoded(plan, Stamp(0)).decode("latin-1"))

    @property
    def address(self) -> Address:
        """Where generators find it."""
        return self._meeting.address

    @property
    def buffer_bytes(self) -> int:
        """The size of each buffer, on both sides."""
        return len(self._buffers[0])

    def publish(self, version: int, tensors: Iterable[tuple[str, Tensor]]) -> Published:
        """Wait for all generators, then stream to them. See WeightsOut.

        WeightsError where one doesn't come, or breaks off: then some may have taken it and others
        not, and the next version goes to all.
        """
        if version <= self._version:
            raise ValueError(f"version {version} after {self._version}")
        return self.publish_to(range(1, self._generators + 1), version, tensors)

    def publish_to(
        self, generators: Iterable[int], version: int, tensors: Iterable[tuple[str, Tensor]]
    ) -> Published:
        """The same for the generators of these numbers alone, which may be to have the version that
        others have already."""
        started = time.perf_counter()
        if version < self._version:
            raise ValueError(f"version {version} after {self._version}")
        self._version, self._attempt = version, self._attempt + 1
        offer = Offer(
            version,
            self._life,
            self._attempt,
            list(generators),
            self.buffer_bytes,
            self._direct,
            self._verify,
        )
        whole = Checksum()
        try:
            self._meeting.offer(offer)
            said = self._hear(offer, "ready", "come to the end of its batch")
            self._meet(offer, said)
            self._meeting.tell(offer.key("go"), f"{GO} {self._group_number}")
            self._send(offer, tensors, whole)
            checksum = whole.digits if self._verify else ""
            self._meeting.tell(offer.key("checksum"), checksum)
            self._hear(offer, "done", "finish")
        except BaseException as error:
            self._give_up(offer)
            if isinstance(error, RuntimeError):  # whatever torch.distributed ends with
                text = f"version {version} didn't get to all generators ({first_line(error)})"
                raise WeightsError(text) from error
            raise
        self._meeting.offer(None)
        seconds = time.perf_counter() - started
        return Published(version, checksum, self._plan.bytes, seconds, whole.seconds)

    def close(self) -> None:
        """End the group and the store."""
        self._group = None
        del self._meeting

    def _hear(self, offer: Offer, what: str, doing: str) -> Sequence[str]:
        """What every generator says once it is so far. WeightsError, WeightsMismatch."""
        numbers = offer.generators
        heard = self._meeting.wait([offer.key(f"{what}/{number}") for number in numbers])
        said = []
        for number, text in zip(numbers, heard, strict=True):
            if text is None:
                raise WeightsError(
                    f"generator {number} didn't {doing} for version {offer.version} within "
                    f"{self.address.timeout_seconds:g} s (policy.weights.timeout_seconds)"
                )
            if not text.startswith(OK):
                failure = WeightsMismatch if what == "ready" else WeightsError
                raise failure(f"generator {number}: {text}")
            said.append(text)
        return said

    def _meet(self, offer: Offer, said: Sequence[str]) -> None:
        """Begin a new group unless all are in the last one, of which each said the number."""
        held = {text.removeprefix(OK).strip() for text in said}
        if self._members != offer.generators or held != {str(self._group_number)}:
            self._group = None
        if self._group is None:
            self._group_number += 1
            self._members = offer.generators

    def _send(self, offer: Offer, tensors: Iterable[tuple[str, Tensor]], whole: Checksum) -> None:
        if self._group is None:
            processes = len(offer.generators) + 1
            self._group = self._meeting.group(self._group_number, 0, processes, self._device)
        earlier: Work | None = None
        seen = self._summed(tensors, whole) if self._verify else tensors
        for part in stream.packed(self._plan, seen, self._buffers, self._direct):
            sending = broadcast(self._group, part)
            del part  # it may be a tensor
            if earlier is not None:
                earlier.wait()  # its buffer is filled next
            earlier = sending
        if earlier is not None:
            earlier.wait()

    def _summed(
        self, tensors: Iterable[tuple[str, Tensor]], whole: Checksum
    ) -> Iterator[tuple[str, Tensor]]:
        """Pass tensors on, summed up in the plan's order; holds none while the next is made."""
        source = iter(tensors)
        while (pair := next(source, None)) is not None:
            whole.add(pair[1])
            yield pair
            del pair

    def _give_up(self, offer: Offer) -> None:
        """Let nobody wait for this offer, and begin the next with a new group."""
        self._group = None
        with contextlib.suppress(WeightsError):
            self._meeting.tell(offer.key("go"), "no")
            self._meeting.offer(None)
