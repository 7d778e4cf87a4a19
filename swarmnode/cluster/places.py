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

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> MachineOfCluster:
        """From what the driver says."""
        return cls(str(values["node"]), str(values["host"]), int(values["cores"]))

    def __str__(self) -> str:
        return f"{self.host} ({self.node[:8]})"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host is to go."""

    machine: MachineOfCluster
    free: bool
    """Whether the machine has the cores for it; without them it shares those of our other hosts."""


def next_place(
    machines: Sequence[MachineOfCluster], taken: Mapping[str, int], cores: int = 1
) -> Place | None:
    """The machine that is busy with the smallest share of its cores by our hosts.

    `taken` has the cores of our hosts by Ray's id. None where there is no machine with a core.
    """
    usable = sorted((one for one in machines if one.cores > 0), key=lambda one: one.node)
    if not usable:
        return None
    count = Counter(taken)
    best = min(usable, key=lambda one: (count[one.node] + cores) / one.cores)
    return Place(best, count[best.node] + cores <= best.cores)
