"""How a round's rows are batched: micro-batches of each rank, and passes that keep ranks in step.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from swarmnode.training.packing import micro_batches
from swarmnode.training.ranks import Ranks, rows_of_ranks

Rows = tuple[int, ...]
"""A micro-batch: positions in the round's rows."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What one rank computes."""

    own: list[Rows]
    """Its micro-batches, in order."""
    idle: list[Rows]
    """Passes that count for nothing, made after its own: every rank makes as many passes."""


def layout_of(
    ranks: Ranks,
    lengths: Sequence[int],
    tasks: Sequence[str],
    token_budget: int,
    fits: Callable[[int, int], bool],
) -> Layout:
    """The micro-batches of this rank, each of one task, tasks one after the other.

    lengths: positions of each row. tasks: of each row. `fits` as `micro_batches` says.
    """
    shares = rows_of_ranks(lengths, ranks.count)
    each = [_batched(share, lengths, tasks, token_budget, fits) for share in shares]
    own = each[ranks.rank]
    lacking = max(map(len, each)) - len(own)
    shortest = min(range(len(lengths)), key=lambda place: lengths[place], default=0)
    return Layout(own, [(shortest,)] * lacking)


def _batched(
    places: Sequence[int],
    lengths: Sequence[int],
    tasks: Sequence[str],
    token_budget: int,
    fits: Callable[[int, int], bool],
) -> list[Rows]:
    return [
        tuple(of_task[index] for index in chosen)
        for task in sorted({tasks[place] for place in places})
        if (of_task := [place for place in places if tasks[place] == task])
        for chosen in micro_batches([lengths[place] for place in of_task], token_budget, fits)
    ]
