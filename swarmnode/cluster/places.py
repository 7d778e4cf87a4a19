"""On which machine of a cluster a host goes. Pure: the same machines give the same places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MachineOfCluster:
    """A machine that lives."""

    node: str
    """Ray's id of it, in hex."""
    host: str
    """Its name."""
    cores: int
    """As many as it gives to Ray."""
    gpus: int = 0
    """The same of GPUs."""

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> MachineOfCluster:
        """From what the driver says."""
        cores, gpus = int(values["cores"]), int(values["gpus"])
        return cls(str(values["node"]), str(values["host"]), cores, gpus)

    def __str__(self) -> str:
        return f"{self.host} ({self.node[:8]})"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A host that is to be placed."""

    name: str
    module: str
    """What it runs, as a child does (process.py)."""
    environment: Mapping[str, str]
    """Beside that of its machine."""
    cores: int = 1
    gpus: int = 0
    """Where it wants any, they decide where it goes, and nobody shares them."""

    @property
    def share(self) -> int:
        """What it takes of its machine, of cores or of GPUs."""
        return self.gpus or self.cores


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host is to go."""

    machine: MachineOfCluster
    free: bool
    """Whether the machine has the cores for it; without them it shares those of our other hosts."""


def next_place(
    machines: Sequence[MachineOfCluster], taken: Mapping[str, int], wanted: Wanted
) -> Place | None:
    """The machine of whose cores, or GPUs, our hosts have taken the smallest part.

    `taken` has the shares of our hosts by Ray's id. None where there is no machine with any, or
    none with a free GPU.
    """
    count = Counter(taken)

    def room(machine: MachineOfCluster) -> int:
        return machine.gpus if wanted.gpus else machine.cores

    def full(machine: MachineOfCluster) -> bool:
        return count[machine.node] + wanted.share > room(machine)

    usable = [one for one in machines if room(one) and not (wanted.gpus and full(one))]
    if not usable:
        return None
    best = min(
        sorted(usable, key=lambda one: one.node),
        key=lambda one: (count[one.node] + wanted.share) / room(one),
    )
    return Place(best, not full(best))
