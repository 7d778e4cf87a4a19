"""A generator's side of weights by torch.distributed; see broadcast_out.py."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.distributed import Work

from swarmnode.weights import layout, stream
from swarmnode.weights.broadcast_out import GO, OK
from swarmnode.weights.channel import Taken, Tensors, WeightsError, WeightsMismatch, WeightsTorn
from swarmnode.weights.checksum import Checksum
from swarmnode.weights.layout import LENGTH_BYTES
from swarmnode.weights.meeting import Address, Group, Meeting, Offer, broadcast, first_line
from swarmnode.weights.plan import Plan
from swarmnode.weights.stream import Span


class BroadcastIn:
    """A generator's side."""

    def __init__(
        self, address: Address, number: int, base: str = "", *, device: torch.device | str = "cpu"
    ) -> None:
        """Reach the trainer as the generator of that number, from 1 on. WeightsError."""
        self._meeting = Meeting(address, serve=False)
        self._number, self._base, self._device = number, base, torch.device(device)
        self._life: str | None = None
        self._torn, self._lost = False, False
        self._group: tuple[int, str, Group] | None = None
        self._buffers: list[Tensor] = []

    def newest(self) -> int | None:
        """The version that the trainer waits to broadcast. See WeightsIn; raises WeightsError where
        the trainer is gone."""
        offer = self._offered()
        return None if offer is None else offer.version

    def take(self, into: Tensors, have: int) -> Taken | None:
        """Say that we are ready, wait for the others, and receive. See WeightsIn.

        The tensors are filled as they arrive: what breaks off after the first buffer, or proves to
        be damaged at the end, is WeightsTorn.
        """
        started = time.perf_counter()
        offer = self._offered()
        if offer is None:
            return None
        known = self._life in (None, offer.life) and not self._torn
        if offer.version <= have and known:
            return None
        plan, group = self._agree(offer, into)
        whole = Checksum()
        try:
            checksum = self._receive(offer, plan, group, into, whole)
        except WeightsError as error:
            self._group = None
            with contextlib.suppress(WeightsError):
                self._meeting.tell(offer.key(f"done/{self._number}"), str(error))
            raise
        self._meeting.tell(offer.key(f"done/{self._number}"), OK)
        self._life, self._torn = offer.life, False
        seconds = time.perf_counter() - started
        return Taken(offer.version, checksum, plan.bytes, seconds, whole.seconds)

    def close(self) -> None:
        """Leave the group."""
        self._group = None
        del self._meeting

    def _offered(self) -> Offer | None:
        """The offer that stands, if it is to us too. WeightsError where the trainer is gone; one
        that came back is reached at the next try."""
        if self._lost:
            self._meeting = Meeting(self._meeting.address, serve=False)
        self._lost = True
        offer = self._meeting.offered()
        self._lost = False
        return offer if offer is not None and self._number in offer.generators else None

    def _agree(self, offer: Offer, into: Tensors) -> tuple[Plan, int]:
        """Compare plans, and wait until all are ready; the number of the group that they meet in.

        WeightsMismatch, WeightsError.
        """
        ready = offer.key(f"ready/{self._number}")
        header = (self._meeting.read("plan") or "").encode("latin-1")
        plan, _ = layout.decoded(header[LENGTH_BYTES:])
        try:
            plan.require(into, self._base)
        except WeightsMismatch as error:
            self._meeting.tell(ready, str(error))
            raise
        held = self._group[0] if self._group and self._group[1] == offer.life else 0
        self._meeting.tell(ready, f"{OK} {held}")
        (said,) = self._meeting.wait([offer.key("go")])
        if said is None or not said.startswith(GO):
            raise WeightsError(f"the trainer gave version {offer.version} up: others didn't come")
        return plan, int(said.removeprefix(GO))

    def _receive(self, offer: Offer, plan: Plan, group: int, into: Tensors, whole: Checksum) -> str:
        """Fill the tensors; return the checksum. WeightsError if none is filled, WeightsTorn."""
        filled = False
        try:
            for _ in self._filled(offer, plan, group, into):
                filled = self._torn = True
            if offer.verified:
                for entry in plan.entries:
                    whole.add(into[entry.name])
            elif self._device.type == "cuda":  # where waiting is queued like everything else
                torch.cuda.current_stream(self._device).synchronize()
            (sent,) = self._meeting.wait([offer.key("checksum")])
        except (RuntimeError, WeightsError) as error:
            failure = WeightsTorn if filled else WeightsError
            text = f"the broadcast of version {offer.version} broke off ({first_line(error)})"
            raise failure(text) from error
        found = whole.digits if offer.verified else ""
        if found != sent:
            raise WeightsTorn(
                f"version {offer.version} of the weights is damaged: the checksum of what came is "
                f"{found}, of what was sent {sent}"
            )
        return found

    def _filled(self, offer: Offer, plan: Plan, number: int, into: Tensors) -> Iterator[None]:
        """Receive the stream, a part on its way while the one before is unpacked; yields after
        each that has changed the tensors."""
        if not self._buffers or len(self._buffers[0]) != offer.buffer_bytes:
            self._buffers = stream.two_buffers(offer.buffer_bytes, self._device)
        group, direct = self._joined(offer, number), offer.direct_bytes
        landing = stream.Landing(into, self._buffers, direct)
        earlier: tuple[list[Span], Tensor, Work] | None = None
        for part in stream.parts(plan, offer.buffer_bytes, direct):
            if earlier is not None:
                earlier[2].wait()
            memory = landing.memory(part)
            coming = broadcast(group, memory)
            if earlier is not None:
                landing.unpack(*earlier[:2])
            yield
            earlier = part, memory, coming
        if earlier is not None:
            earlier[2].wait()
            landing.unpack(*earlier[:2])
            yield

    def _joined(self, offer: Offer, number: int) -> Group:
        """The processes of the offer: those of the one before, unless they broke up."""
        if self._group is None or self._group[:2] != (number, offer.life):
            rank, processes = offer.generators.index(self._number) + 1, len(offer.generators) + 1
            made = self._meeting.group(number, rank, processes, self._device)
            self._group = (number, offer.life, made)
        return self._group[2]
