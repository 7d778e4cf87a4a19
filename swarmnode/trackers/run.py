"""What a tracker is told of a run, and what every tracker's adapter does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, Self


@dataclass(frozen=True, slots=True)
class Run:
    """One node's life, over all its restarts."""

    project: str
    name: str
    identity: str
    """Stays the same over restarts, so that a run goes on; letters and digits."""
    folder: str
    """Where the tracker may write."""
    settings: Mapping[str, Any]
    """See values.told_settings."""

    def to_values(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """The inverse."""
        return cls(**values)


class Tracker(Protocol):
    """A tracker's library with a run in it; made by `open`."""

    where: str
    """For the user: how to look at it, in one line."""

    def log(self, round_number: int, ended: float, values: Mapping[str, float]) -> None:
        """Keep a round that ended so many seconds after 1970."""

    def flush(self) -> None:
        """Have on disk what was logged."""

    def close(self) -> None:
        """End the run in order; it may be gone on with."""


def tracker_folder(metrics: Path, name: str) -> Path:
    """Where a tracker writes, in the home's folder of metrics."""
    return metrics / name
