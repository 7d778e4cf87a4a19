"""Settings of what bounds the training on peers' groups: the fallback to own groups."""

from __future__ import annotations

from pydantic import Field

from swarmnode.config.base import Section


class Fallback(Section):
    """Training on own groups alone while held-out success falls with peers' groups in training."""

    enabled: bool = True
    """Whether a fall has consequences; it is told of in any case."""

    drop: float = Field(default=0.02, gt=0.0, le=1.0)
    """Held-out success that has to be lost, the mean over the last two evaluations against that
    over the best two before, questions paired."""

    deviations: float = Field(default=3.0, ge=0.0)
    """The same in standard errors of the paired difference; both limits must be reached."""

    evaluations: int = Field(default=4, ge=1, le=1000)
    """Evaluations after which peers' groups are given another chance, sooner where half of what was
    lost is regained. It doubles with every further fall, up to eight times."""
