"""What every scheduler is asked and told: `weights(state)`, then `update(outcome)`, step by step.

A step is a node's round or a pre-training step. Values by domain are in the order of the domains,
which never changes; None stands for what a step did not show. Between `update` and the next
`weights`, `state_dict` and the State are all that is needed to go on exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Protocol

ByDomain = tuple[float | None, ...]
"""A value for each domain; None where there is none."""

Signal = Literal["loss", "learnability"]
"""What a bandit is paid in: language modelling has losses, the node's rounds have learnability."""


@dataclass(frozen=True, slots=True)
class State:
    """What was known before a step: (n, t, l, Δl, ‖ω‖, ‖Δω‖) of HDS (arXiv 2606.24133)."""

    step: int
    """Steps made before this one: t."""
    total_steps: int
    """Steps planned: T; 0 where nobody knows."""
    samples: tuple[float, ...]
    """Samples drawn so far, by domain: n."""
    losses: ByDomain
    """By domain: l. Nats per token, or the share of failures in a node."""
    loss_changes: ByDomain
    """What each loss changed by in the last step: Δl."""
    layer_norms: tuple[float, ...] = ()
    """Euclidean norms of the weights of the selected layers: ‖ω‖."""
    layer_changes: tuple[float, ...] = ()
    """Euclidean norms of what these weights changed by in the last step: ‖Δω‖."""
    smoothing: float = 0.0
    """Share of the old value in a new loss, in [0, 1): training losses are noisy."""

    @property
    def progress(self) -> float:
        """t' = t / T in [0, 1]; 0 where T is unknown."""
        return min(1.0, self.step / self.total_steps) if self.total_steps else 0.0

    def to_values(self) -> dict[str, Any]:
        """Lists and numbers alone, for a checkpoint."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> State:
        """Take back what `to_values` gave."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list | tuple) else value
            for name, value in values.items()
        }
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step with certain weights gave."""

    weights: tuple[float, ...]
    """The weights that its samples were drawn by."""
    samples: tuple[float, ...]
    """Samples drawn, by domain."""
    losses: ByDomain
    """As in State, of this step alone."""
    learnability: ByDomain = ()
    """Mean |advantage| by domain, groups that teach nothing counted as 0; empty: not measured."""
    diversity: ByDomain = ()
    """MTLD of what was sampled, by domain (mtld.py); empty: not measured."""
    gradient_products: tuple[ByDomain, ...] = ()
    """⟨g_i, g_j⟩ for all pairs of domains, over the selected layers; empty: not measured."""
    layer_norms: tuple[float, ...] = ()
    """As in State, after the step."""
    layer_changes: tuple[float, ...] = ()
    """As in State, of this step."""


class Scheduler(Protocol):
    """Decides what is learned next."""

    def weights(self, state: State) -> Sequence[float]:
        """Shares of the domains in the next step; they sum to 1."""

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Learn from the step that the last weights gave; returns metrics."""

    def state_dict(self) -> dict[str, Any]:
        """All that was learned: a tree of dicts, lists, texts, numbers and, of agents, tensors."""

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` of a scheduler made the same way gave, bit for bit."""


def beginning(domains: int, *, total_steps: int = 0, smoothing: float = 0.0) -> State:
    """The state before the first step."""
    return State(
        step=0,
        total_steps=total_steps,
        samples=(0.0,) * domains,
        losses=(None,) * domains,
        loss_changes=(None,) * domains,
        smoothing=smoothing,
    )


def advance(state: State, outcome: Outcome) -> State:
    """The state before the next step."""
    losses = tuple(
        _smoothed(old, new, state.smoothing)
        for old, new in zip(state.losses, outcome.losses, strict=True)
    )
    return replace(
        state,
        step=state.step + 1,
        samples=tuple(map(sum, zip(state.samples, outcome.samples, strict=True))),
        losses=losses,
        loss_changes=tuple(
            None if old is None or new is None else new - old
            for old, new in zip(state.losses, losses, strict=True)
        ),
        layer_norms=outcome.layer_norms or state.layer_norms,
        layer_changes=outcome.layer_changes or state.layer_changes,
    )


def signal_of(outcome: Outcome, signal: Signal) -> ByDomain:
    """What a bandit is paid, by domain."""
    return outcome.losses if signal == "loss" else outcome.learnability


def finite(outcome: Outcome) -> tuple[Outcome, int]:
    """The outcome without what is no finite number, and how many values that took away.

    Values by domain become None; a list of layers that holds one is left out as a whole.
    """
    cleaned: dict[str, Any] = {}
    gone = 0
    for name in ("losses", "learnability", "diversity"):
        cleaned[name], count = _known(getattr(outcome, name))
        gone += count
    rows = [_known(row) for row in outcome.gradient_products]
    cleaned["gradient_products"] = tuple(row for row, _ in rows)
    gone += sum(count for _, count in rows)
    for name in ("layer_norms", "layer_changes"):
        values = getattr(outcome, name)
        wrong = sum(not math.isfinite(value) for value in values)
        cleaned[name] = () if wrong else values
        gone += wrong
    return (replace(outcome, **cleaned) if gone else outcome), gone


def _known(values: ByDomain) -> tuple[ByDomain, int]:
    kept = tuple(v if v is not None and math.isfinite(v) else None for v in values)
    return kept, sum(v is not None and k is None for v, k in zip(values, kept, strict=True))


def _smoothed(old: float | None, new: float | None, smoothing: float) -> float | None:
    if new is None or old is None:
        return old if new is None else new
    return smoothing * old + (1.0 - smoothing) * new
