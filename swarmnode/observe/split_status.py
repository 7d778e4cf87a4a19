"""The status of a node whose generation and training are apart."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from swarmnode.observe.part import Part


class GeneratorStatus(Part):
    """A process that samples."""

    name: str
    version: int
    """Of the weights that it samples with."""
    under_way: int = 0
    """Groups that it samples now."""
    group_seconds: float | None = None
    """What it needs for a group lately; None before the first."""
    idle_share: float = 0.0
    """Share of its time, lately, in which it might begin nothing, in [0, 1]."""
    waiting_seconds: float | None = None
    """Since when it may begin nothing; None if it samples or is being made."""


class SplitStatus(Part):
    """Both sides, and what lies between them."""

    version: int
    """The number of the trainer's weights; it never goes back, as the policy's version may."""
    queue_groups: int = 0
    """Finished groups that wait."""
    capacity_groups: int
    """Groups that may wait or be under way."""
    lag: int = 0
    """Versions that the stalest group of the last round was behind."""
    max_lag: int
    """The setting."""
    trainer_round_seconds: float | None = None
    """What a round of training takes lately, without waiting; None before the first."""
    trainer_idle_share: float = 0.0
    """Share of its time, lately, that the trainer waited for groups, in [0, 1]."""
    trainer_waits: bool = False
    generated_groups: int = 0
    """Since the start."""
    dropped: Mapping[str, int] = Field(default_factory=dict)
    """Of them, by reason."""
    generators: tuple[GeneratorStatus, ...] = ()
