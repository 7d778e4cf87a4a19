"""What the processes of a node's policy need of memory together, and what there is. Pure.

One process under `policy.mode` = `sync`; under `split` a trainer, its generators, and what they
share. Each of them is held against the machine by itself when it starts; whether all have room at
their peaks, which may come at once, is what this tells. Bytes everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Needs:
    """At the peaks, and available now."""

    bytes: int
    """Of the process that trains, or of each of them."""
    parts: str
    """The same in words."""
    available_bytes: int
    """Where the models are: the machine's memory, or the accelerator's."""
    trainers: int = 1
    """Processes that train in that memory."""
    generators: int = 0
    generator_bytes: int = 0
    """Of each of them, reward models included."""
    generator_parts: str = ""
    shared_bytes: int = 0
    """In shared memory: the copies of the weights on their way."""
    shared_available_bytes: int = 0
    """Of what shared memory may hold."""
    shared_apart: bool = False
    """Whether shared memory is none of that which the models are in."""

    @property
    def total_bytes(self) -> int:
        """What must be available together."""
        shared = 0 if self.shared_apart else self.shared_bytes
        return self.trainers * self.bytes + self.generators * self.generator_bytes + shared

    @property
    def fits(self) -> bool:
        """Whether all have room at once."""
        return (
            self.total_bytes <= self.available_bytes
            and self.shared_bytes <= self.shared_available_bytes
        )
