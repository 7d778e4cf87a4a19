"""One of several processes that train one policy: which it is, and where all of them meet.

Either torchrun started them, and says so in the environment, or a node did. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TORCHRUN = "torchrun"
"""What a policy host is told in place of a number of ranks."""


@dataclass(frozen=True, slots=True)
class Place:
    """One rank's place."""

    rank: int
    count: int
    """Of all ranks."""
    local_rank: int
    """Among those of this machine: its CUDA device."""
    local_count: int
    host: str
    port: int
    """Of the store in which ranks find one another."""
    attempt: int = 0
    """How often torchrun has started all of them anew; its store outlives them."""

    def arguments(self) -> list[str]:
        """As words of a command line."""
        numbers = (self.rank, self.count, self.local_rank, self.local_count)
        return [*map(str, numbers), self.host, str(self.port), str(self.attempt)]

    @classmethod
    def of_arguments(cls, words: list[str]) -> Place:
        """The inverse."""
        rank, count, local_rank, local_count, host, port, attempt = words
        ranks = (int(rank), int(count), int(local_rank), int(local_count))
        return cls(*ranks, host, int(port), int(attempt))


def place_of(environment: Mapping[str, str]) -> Place | None:
    """This process's place as torchrun tells it; None without torchrun, or alone."""
    if "TORCHELASTIC_RUN_ID" not in environment or environment["WORLD_SIZE"] == "1":
        return None
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    attempt = environment.get("TORCHELASTIC_RESTART_COUNT", "0")
    return Place.of_arguments([*(environment[name] for name in names), attempt])
