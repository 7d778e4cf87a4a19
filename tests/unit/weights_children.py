"""Processes for the tests of weights: `python -m tests.unit.weights_children KIND …`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from swarmnode.weights.channel import WeightsOut
from swarmnode.weights.folder import FolderOut
from swarmnode.weights.plan import Plan
from swarmnode.weights.shared_memory import SharedMemoryOut

WRITERS: dict[str, Callable[[Path, Plan], WeightsOut]] = {
    "shared-memory": SharedMemoryOut,
    "folder": FolderOut,
}
ROWS, COLUMNS, COUNT = 256, 512, 8


def uniform(value: float) -> dict[str, Tensor]:
    """Tensors of 4 MiB that all hold one number: a mixture of two versions shows."""
    return {f"weight-{i}": torch.full((ROWS, COLUMNS), float(value)) for i in range(COUNT)}


def writer(kind: str, place: Path) -> WeightsOut:
    """A writer of such tensors."""
    return WRITERS[kind](place, Plan.of(uniform(0)))


def publish(kind: str, place: Path, versions: int) -> None:
    """Publish one version after another as fast as it goes."""
    out = writer(kind, place)
    for version in range(versions):
        out.publish(version, uniform(version).items())
    sys.stdin.readline()  # until the reader is done with the last one
    out.close()


def stop_in_the_middle(kind: str, place: Path) -> None:
    """Publish version 1, then half of version 2, and wait to be killed."""
    out = writer(kind, place)
    out.publish(1, uniform(1).items())

    def halting() -> Iterator[tuple[str, Tensor]]:
        for index, pair in enumerate(uniform(2).items()):
            if index == COUNT // 2:
                print("half", flush=True)
                sys.stdin.read()
            yield pair

    out.publish(2, halting())


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[1] == "publish":
        publish(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
    else:
        stop_in_the_middle(sys.argv[2], Path(sys.argv[3]))
