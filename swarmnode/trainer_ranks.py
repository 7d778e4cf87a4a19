"""Several processes that train one policy: how they meet, what the first tells the others, when all
of them end (docs/scaling.md).

The first rank is a node's policy host. It hears the daemon's requests, passes those on in which
every rank has a part, and all do the same with them. What only it does (judging, writing, sampling)
comes in between. Invariants: nobody goes on with a model that others may not have: a rank that
fails ends, and with its connections all ranks do; the daemon's supervisor then starts the first one
anew, from the newest checkpoint.

Two groups of torch.distributed: that of the model's passes, gloo between processors and NCCL
between CUDA devices, and one of gloo for requests, in which the others wait as long as nothing is
asked. None of it is encrypted or authenticated: ranks on several machines want a network that only
they are on.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import msgpack
import torch
from torch import Tensor, distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from swarmnode.frames import MAX_FRAME_BYTES, unpacked
from swarmnode.policy.spreading import whole
from swarmnode.process import Refusal
from swarmnode.torchrun import Place
from swarmnode.weights.meeting import first_line

LOOPBACK = "127.0.0.1"
JOIN_SECONDS = 600.0
"""How long ranks wait for one another at the start, or for the first to come back."""
PASS_TIMEOUT = timedelta(minutes=30)
"""The longest wait for other ranks within a pass; the daemon has less patience as a rule."""
IDLE_TIMEOUT = timedelta(days=7)
"""The longest wait for a request."""
FAILED_TIMEOUT = timedelta(seconds=60)
"""How long the first rank, having failed, waits for the others to be through."""
LOOK_SECONDS = 0.2
_LIFE = "swarmnode/life"
"""In the store: how often the first rank has begun."""

# What torch's types leave out of its public names.
_distributed: Any = distributed
Result = TypeVar("Result")


class RanksLost(Exception):
    """Other ranks are gone, or not where this one is: this process must end."""


class UnusableRanks(Refusal):
    """These ranks can't train together; the text is one line for the user."""


class TrainerRanks:
    """The ranks of one trainer, seen from one of them: `Ranks` of the step, and more."""

    def __init__(self, place: Place, store: Any, life: int) -> None:
        """Meet the others of this life; waits for them. Raises RanksLost."""
        self._place = place
        self._life = life
        cuda = torch.cuda.device_count()
        if place.local_rank < cuda:
            torch.cuda.set_device(place.local_rank)
        try:
            _distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if place.local_count <= cuda else "gloo",
                store=_distributed.PrefixStore(f"swarmnode/{life}", store),
                rank=place.rank,
                world_size=place.count,
                timeout=PASS_TIMEOUT,
            )
            self._requests = _distributed.new_group(backend="gloo", timeout=IDLE_TIMEOUT)
        except RuntimeError as error:
            raise RanksLost(f"the other ranks don't come ({first_line(error)})") from error

    @property
    def rank(self) -> int:
        """This one, from 0."""
        return self._place.rank

    @property
    def count(self) -> int:
        """All of them."""
        return self._place.count

    @property
    def local_count(self) -> int:
        """Those of this machine."""
        return self._place.local_count

    @property
    def leads(self) -> bool:
        """Whether this is the first one."""
        return self.rank == 0

    def check(self, device: torch.device) -> None:
        """Raise UnusableRanks where ranks can't compute on such a device."""
        found = torch.cuda.device_count()
        if device.type == "cuda" and self.local_count > found:
            raise UnusableRanks(
                f"{self.local_count} trainer processes want a CUDA device each, and torch sees "
                f"{found}; start as many as there are, or set policy.device=cpu"
            )
        if device.type not in ("cpu", "cuda"):
            raise UnusableRanks(
                f"several trainer processes compute on processors or CUDA devices, not on "
                f"{device.type}; set policy.device=cpu or policy.trainer_processes=1"
            )

    def mesh(self, device: torch.device) -> DeviceMesh:
        """All ranks in a row, on such devices."""
        return init_device_mesh(device.type, (self.count,))

    def summed(self, values: Tensor) -> Tensor:
        """As Ranks says."""
        total = values.clone()
        _distributed.all_reduce(total)
        return total

    def whole(self, tensor: Tensor) -> Tensor:
        """As Ranks says."""
        return whole(tensor)

    def tell(self, value: object) -> None:
        """Give all other ranks a plain value. Raises RanksLost."""
        body = bytearray(msgpack.packb(value))
        if len(body) > MAX_FRAME_BYTES:
            raise ValueError(f"{len(body)} bytes for other ranks exceed {MAX_FRAME_BYTES}")
        self._broadcast(torch.tensor([len(body)]))
        self._broadcast(torch.frombuffer(body, dtype=torch.uint8))

    def hear(self) -> Any:
        """What the first rank tells; waits for it. Raises RanksLost."""
        size = torch.zeros(1, dtype=torch.int64)
        self._broadcast(size)
        if not 0 < int(size) <= MAX_FRAME_BYTES:
            raise RanksLost(f"a request of {int(size)} bytes")
        body = torch.empty(int(size), dtype=torch.uint8)
        self._broadcast(body)
        return unpacked(body.numpy().tobytes())

    def agreed(self, value: Any) -> Any:
        """The first rank's value on all of them; what others give is not looked at."""
        if not self.leads:
            return self.hear()
        self.tell(value)
        return value

    def together(self, work: Callable[[], Result]) -> Result:
        """Do what all ranks do, and wait until all have; raises what it raises here.

        Where another rank failed alone, or doesn't come to the end, it is RanksLost.
        """
        try:
            result = work()
        except Exception:
            self._through(failed=True)
            raise
        self._through(failed=False)
        return result

    def _through(self, *, failed: bool) -> None:
        others_failed = torch.tensor([int(failed and not self.leads)])
        waiting = FAILED_TIMEOUT if failed else IDLE_TIMEOUT
        try:
            _distributed.all_reduce(others_failed, group=self._requests, async_op=True).wait(
                waiting
            )
        except RuntimeError as error:
            raise RanksLost(f"another rank is gone ({first_line(error)})") from error
        if int(others_failed) and not failed:
            raise RanksLost("another rank failed where this one did not")

    def _broadcast(self, values: Tensor) -> None:
        try:
            _distributed.broadcast(values, src=0, group=self._requests)
        except RuntimeError as error:
            raise RanksLost(f"another rank is gone ({first_line(error)})") from error


def lead(processes: int) -> TrainerRanks:
    """Start the other ranks of this machine, as children that end with this process, and meet them.

    Everything is on loopback. Raises RanksLost.
    """
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
    listening = socket.create_server((LOOPBACK, 0))
    place = Place(0, processes, 0, processes, LOOPBACK, listening.getsockname()[1])
    store = _distributed.TCPStore(
        place.host,
        place.port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=JOIN_SECONDS),
        # The store would listen on every address of the machine.
        master_listen_fd=listening.detach(),
    )
    for rank in range(1, processes):
        other = replace(place, rank=rank, local_rank=rank)
        subprocess.Popen(
            [sys.executable, "-m", "swarmnode.follower", *other.arguments()],
            stdin=subprocess.DEVNULL,
        )
    return _begin(place, _distributed.PrefixStore(f"attempt-{place.attempt}", store))


def lead_torchrun(place: Place) -> TrainerRanks:
    """Meet the ranks that torchrun started. Raises RanksLost."""
    return _begin(place, _reached(place))


def next_life(place: Place, last_life: int) -> tuple[Any, int]:
    """Wait for the first rank to begin a life after that one; the store, and which life it is.

    Raises RanksLost.
    """
    store = _reached(place)
    waited = time.monotonic()
    while (life := store.add(_LIFE, 0)) <= last_life:
        if time.monotonic() - waited > JOIN_SECONDS:
            raise RanksLost(f"the first rank did not come back within {JOIN_SECONDS:g} s")
        time.sleep(LOOK_SECONDS)
    return store, life


def _begin(place: Place, store: Any) -> TrainerRanks:
    return TrainerRanks(place, store, store.add(_LIFE, 1))


def _reached(place: Place) -> Any:
    try:
        store = _distributed.TCPStore(
            place.host,
            place.port,
            is_master=False,
            wait_for_workers=False,
            timeout=timedelta(seconds=JOIN_SECONDS),
        )
        return _distributed.PrefixStore(f"attempt-{place.attempt}", store)
    except RuntimeError as error:
        raise RanksLost(
            f"{place.host}:{place.port} is not answering ({first_line(error)})"
        ) from error
