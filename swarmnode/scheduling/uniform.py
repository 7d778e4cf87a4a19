"""The scheduler of the paper's controlled study: every task equally likely, for ever."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from swarmnode.types import Scored


class Uniform:
    """Equal weights over the tasks; learns nothing from what was asked."""

    def __init__(self, tasks: Sequence[str]) -> None:
        self._weights = {task: 1.0 / len(tasks) for task in tasks}

    def weights(self) -> Mapping[str, float]:
        """Probability by task; they sum to 1."""
        return self._weights

    def update(self, local: Sequence[Scored]) -> None:
        """Hear of a round's own groups."""
