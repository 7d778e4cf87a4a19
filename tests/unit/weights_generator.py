"""A generator for the tests of the broadcast: `python -m tests.unit.weights_generator …`.

Arguments: the trainer's host and port, rank, versions to take, and `whole` or `dies`: the last ends
itself by signal 9 when half of the tensors are filled.
"""

from __future__ import annotations

import os
import signal
import sys

import torch
from torch import Tensor

from swarmnode.weights.broadcast_in import BroadcastIn
from swarmnode.weights.checksum import checksum
from swarmnode.weights.meeting import Address
from tests.unit.weights_support import blank, large


class Deadly(dict[str, Tensor]):
    """Tensors to be filled; the process ends when the last of them is."""

    seen = 0

    def __getitem__(self, name: str) -> Tensor:
        self.seen += name == list(self)[-1]
        if self.seen == 2:  # it was looked at before
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(name)


def generate(host: str, port: int, rank: int, versions: int, manner: str) -> None:
    """Take so many versions; print each, and the checksum of what is in the tensors."""
    taking, have = BroadcastIn(Address(host, port, 30.0), rank), -1
    into = Deadly(blank(large())) if manner == "dies" else blank(large())
    print("here", flush=True)
    while versions:
        taken = taking.take(into, have)
        if taken is not None:
            have, versions = taken.version, versions - 1
            print(have, checksum(into.values()), flush=True)
    taking.close()


if __name__ == "__main__":
    torch.set_num_threads(1)
    generate(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
