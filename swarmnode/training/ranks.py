"""Several processes that train one model, as the step sees them: who computes which rows.

All ranks are given the same rows and settings, so that each knows what every other does, and only
sums go over the wire. A model that is sharded over ranks needs all of them at every pass: whoever
has fewer micro-batches goes along with one that counts for nothing. Pure but for `Ranks`, whose
implementation over torch.distributed is next to its wiring (swarmnode/trainer_ranks.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Protocol

import torch
from torch import Tensor


class Ranks(Protocol):
    """The processes of one trainer, from the view of one of them."""

    @property
    def rank(self) -> int:
        """This one, from 0."""

    @property
    def count(self) -> int:
        """All of them."""

    def summed(self, values: Tensor) -> Tensor:
        """The sum over all ranks, on each of them; all give the same shape and type."""

    def whole(self, tensor: Tensor) -> Tensor:
        """A tensor that is spread over the ranks in one piece, on each of them."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A trainer of one process."""

    rank: int = 0
    count: int = 1

    def summed(self, values: Tensor) -> Tensor:
        """The values themselves."""
        return values

    def whole(self, tensor: Tensor) -> Tensor:
        """The tensor itself."""
        return tensor


ALONE = Alone()


def rows_of_ranks(lengths: Sequence[int], count: int) -> list[list[int]]:
    """The rows of each rank, in order, so that positions are spread evenly.

    The longest row first, each to the rank that has the least so far (Graham 1969, "Bounds on
    multiprocessing timing anomalies"): no rank has more than 4/3 of what would be best.
    """
    shares: list[list[int]] = [[] for _ in range(count)]
    sums = [0] * count
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        least = min(range(count), key=lambda rank: (sums[rank], rank))
        shares[least].append(place)
        sums[least] += lengths[place]
    return [sorted(share) for share in shares]


def by_row(
    ranks: Ranks,
    own: Mapping[int, Tensor],
    tokens: Sequence[int],
    device: torch.device,
    leading: tuple[int, ...] = (),
) -> dict[int, Tensor]:
    """What every rank has of its own rows, on all of them; rows by their position.

    own: float32, (*leading, tokens of the row). tokens: those of each row of the round; each row is
    of one rank.
    """
    if ranks.count == 1:
        return dict(own)
    whole = torch.zeros((*leading, sum(tokens)), dtype=torch.float32, device=device)
    starts = [0, *accumulate(tokens)]
    for place, values in own.items():
        whole[..., starts[place] : starts[place + 1]] = values
    whole = ranks.summed(whole)
    return {place: whole[..., low:high] for place, (low, high) in enumerate(pairwise(starts))}
