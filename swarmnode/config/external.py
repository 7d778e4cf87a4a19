"""Settings of what bounds the training on peers' groups: the log-prob gate and the fallback."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from swarmnode.config.base import Section

GateAction = Literal["off", "monitor", "enforce"]


class LogProbGate(Section):
    """Whether a peer's completion is something that our own policy might have said."""

    action: GateAction = "monitor"
    """`monitor`: count the completions of peers that are past the limit. `enforce`: don't train on
    them; their rewards count in the baseline of their group. `off`: measure nothing. What the
    policy would not say is also what makes sharing worth it, and no study has shown yet what
    enforcing costs, so that it is not the default."""

    probability: float = Field(default=1e-4, gt=0.0, lt=1.0)
    """A token to which our policy gives less than this is unlikely. What is held against the limit
    is the share of a completion's tokens that are."""

    quantile: float = Field(default=0.99, gt=0.5, lt=1.0)
    """The limit is this quantile of the shares of our own completions, by task where enough of them
    are known: 0.99 lets one in a hundred of our own be past it."""


class Fallback(Section):
    """Training on own groups alone while held-out success falls with peers' groups in training."""

    enabled: bool = True
    """Whether a fall has consequences; it is measured in any case."""

    drop: float = Field(default=0.02, gt=0.0, le=1.0)
    """Held-out success that has to be lost, the mean over the last two evaluations against that
    over the best two before, questions paired."""

    deviations: float = Field(default=3.0, ge=0.0)
    """The same in standard errors of the paired difference; both limits must be reached."""

    evaluations: int = Field(default=4, ge=1, le=1000)
    """Evaluations after which peers' groups are given another chance; the first time sooner, where
    half of what was lost is regained. It doubles with every further fall, up to eight times."""
