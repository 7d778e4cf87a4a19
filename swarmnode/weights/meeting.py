"""How a trainer and its generators agree that a broadcast begins: over a small key-value store.

The trainer serves the store (torch's TCPStore) on one address and offers a version in it. A
generator that is between two batches sees the offer, compares plans and says that it is ready;
once all are, the trainer says go. Only then does anybody enter the broadcast, so that a generator
that doesn't come costs the others a wait and no half update. Every wait ends.

The store and the broadcast are neither secret nor authenticated: they belong on a network that only
the trainer and its generators are on.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, distributed
from torch.distributed import BroadcastOptions, Work

from swarmnode.weights.channel import WeightsError

# What torch's types leave out of its public names, or of what they can do.
_distributed: Any = distributed


class Group(Protocol):
    """Processes that send to one another: what is used of torch's ProcessGroup."""

    def broadcast(self, parts: list[Tensor], options: BroadcastOptions, /) -> Work:
        """Send or receive; returns at once."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the trainer is met, and how long one waits for another there."""

    host: str
    port: int
    timeout_seconds: float

    @property
    def timeout(self) -> datetime.timedelta:
        """The longest wait for the other side."""
        return datetime.timedelta(seconds=self.timeout_seconds)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Offer:
    """What the trainer is about to broadcast, and to whom."""

    version: int
    life: str
    attempt: int
    """Grows with every offer: keys of one are not those of another."""
    generators: list[int]
    """The numbers of those that it goes to; the first of them is rank 1 of the group."""
    buffer_bytes: int
    direct_bytes: int
    """Tensors from this size on are sent from where they lie (stream.py)."""
    verified: bool
    """Whether there will be a checksum."""

    def key(self, what: str) -> str:
        """The name of something in the store that belongs to this offer."""
        return f"{self.attempt}/{what}"


class Meeting:
    """One side's access to the store."""

    def __init__(self, address: Address, *, serve: bool) -> None:
        """Serve the store, or reach the one who does. Raises WeightsError."""
        self._made: list[Offer] = []
        """The last two offers, about which somebody may still wait for a word."""
        listening = None
        try:
            if serve:
                listening = socket.create_server((address.host, address.port))
                self.address = Address(
                    address.host, listening.getsockname()[1], address.timeout_seconds
                )
            else:
                self.address = address
            self._store = _distributed.TCPStore(
                address.host,
                self.address.port,
                is_master=serve,
                wait_for_workers=False,
                timeout=address.timeout,
                # The store would listen on every address of the machine.
                master_listen_fd=listening.detach() if listening is not None else None,
            )
        except (OSError, RuntimeError) as error:
            doing = "can't be served" if serve else "is not answering"
            raise WeightsError(
                f"the trainer's policy.weights.address {address} {doing} ({first_line(error)})"
            ) from error

    def tell(self, key: str, text: str) -> None:
        """Let everybody read a text. WeightsError where the store is gone."""
        with self._reachable():
            self._store.set(key, text)

    def read(self, key: str) -> str | None:
        """Return a text that is there, without waiting. WeightsError where the store is gone."""
        with self._reachable():
            there: bool = self._store.check([key])
            text: str | None = self._store.get(key).decode() if there else None
            return text

    def wait(self, keys: Sequence[str]) -> list[str | None]:
        """Return the texts as soon as all are there; after the timeout, None for those that
        aren't. WeightsError where the store is gone."""
        with contextlib.suppress(RuntimeError):  # what is missing, or gone, shows below
            self._store.wait(list(keys), self.address.timeout)
        return [self.read(key) for key in keys]

    def offer(self, offer: Offer | None) -> None:
        """Make, or withdraw, the offer. What was said about the one before the last is removed."""
        if offer is not None:
            if len(self._made) == 2:
                self._forget(self._made.pop(0))
            self._made.append(offer)
        self.tell("offer", json.dumps(asdict(offer) if offer is not None else None))

    def offered(self) -> Offer | None:
        """Return the offer that stands."""
        content = json.loads(self.read("offer") or "null")
        return Offer(**content) if content is not None else None

    def group(self, number: int, rank: int, processes: int, device: torch.device) -> Group:
        """Join so many processes under a number that was never used. Raises RuntimeError."""
        store = _distributed.PrefixStore(f"group/{number}", self._store)
        on_cuda = device.type == "cuda"
        kind = _distributed.ProcessGroupNCCL if on_cuda else _distributed.ProcessGroupGloo
        options = kind.Options() if on_cuda else kind._Options()
        options._timeout = self.address.timeout
        if not on_cuda:  # gloo would listen where this machine's name leads to
            options._devices = [kind.create_device(hostname=self._own_host())]
        made: Group = kind(store, rank, processes, options)
        return made

    def _forget(self, offer: Offer) -> None:
        said = [f"{what}/{number}" for what in ("ready", "done") for number in offer.generators]
        with self._reachable():
            for what in ("go", "checksum", *said):
                self._store.delete_key(offer.key(what))

    @contextlib.contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise WeightsError(
                f"the trainer's policy.weights.address {self.address} is gone ({first_line(error)})"
            ) from error

    def _own_host(self) -> str:
        """The address that this machine has on the way to the trainer; sends nothing."""
        family, *_, reached = socket.getaddrinfo(self.address.host, self.address.port)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(reached)
            return str(probe.getsockname()[0])


def broadcast(group: Group, part: Tensor) -> Work:
    """Send a part from rank 0, or receive it there; returns at once."""
    options = BroadcastOptions()
    options.rootRank = 0
    return group.broadcast([part], options)


def first_line(error: Exception) -> str:
    """Return what torch.distributed says, without the trace that it adds."""
    return str(error).partition("\n")[0][:200]
