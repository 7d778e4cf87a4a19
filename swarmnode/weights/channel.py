"""The interface between the one who trains and those who sample, whatever carries the weights.

One `WeightsOut` publishes; any number of `WeightsIn` take, each when it pleases, so that nobody
waits for a generator that is in the middle of a batch (broadcast.py alone needs all at once). Both
sides are made with what they send or expect, a `Plan` (plan.py); where the two differ, the first
`take` says so in one line.

Versions grow within one writer's life. A writer that was started anew may begin lower, since it
went on from a checkpoint: whatever it publishes is newer than all that its predecessor did, and a
`WeightsIn` that saw both takes it, whatever `have` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch

from swarmnode.process import Refusal

Tensors = Mapping[str, torch.Tensor]
"""Tensors by name. Those that share memory (tied weights) are there once."""


class WeightsError(Refusal):
    """Weights were not handed over; the text is one line. Where it is this class itself: try the
    next version."""


class WeightsDamaged(WeightsError):
    """What arrived is not what was sent: the checksum or the description of it doesn't match."""


class WeightsMismatch(WeightsError):
    """The two sides don't speak of the same tensors, or not of the same base: no try will help."""


class WeightsTorn(WeightsError):
    """The hand-over broke off in the middle: `into` is half new and must not be sampled from until
    a `take` has succeeded. Shared memory never raises it."""


@dataclass(frozen=True, slots=True)
class Published:
    """What left."""

    version: int
    checksum: str
    """XXH3-64 of all bytes in the plan's order, 16 hex digits: the same whatever carries them."""
    bytes: int
    seconds: float
    """All of it, with gathering and the checksum."""
    checksum_seconds: float
    """The part of it that the checksum took."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What arrived."""

    version: int
    checksum: str
    bytes: int
    seconds: float
    """All of it, with the checksum; without waiting for a version to be there."""
    checksum_seconds: float
    """The part of it that the checksum took."""


class WeightsOut(Protocol):
    """The trainer's side."""

    def publish(self, version: int, tensors: Iterable[tuple[str, torch.Tensor]]) -> Published:
        """Make a version takeable, whole or not at all.

        `tensors` come in the plan's order and are read once, one at a time: each may be gathered
        when it is asked for and is let go before the next one is. They may lie on any device.
        `version` is greater than that of the call before (ValueError).

        Raises WeightsMismatch for tensors other than the plan's, WeightsError where there is no
        room or nobody to send to. The version before stays takeable then.
        """

    def close(self) -> None:
        """Let go of what is held. What was published last stays takeable where nobody need send it
        again: from a folder."""


class WeightsIn(Protocol):
    """A generator's side."""

    def newest(self) -> int | None:
        """Return the version that can be taken now; None where there is none. Cheap, and never
        waits, so that it can be asked between any two batches."""

    def take(self, into: Tensors, have: int) -> Taken | None:
        """Copy the newest whole version beyond `have` into the tensors; None if there is none.

        `have` is -1 for one that has none. `into` are the plan's tensors, on any device, and are
        filled in place; they are left as they were unless the error says otherwise.

        Raises WeightsDamaged, WeightsMismatch, WeightsTorn.
        """

    def close(self) -> None:
        """Let go of what is held."""
