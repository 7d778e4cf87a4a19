"""What an agent sees of a State: plain numbers of about one in size, at fixed places. No torch.

The layout is flat: the domains' features, then the layers', then those of the whole. What is not
known is 0, which is the mean of standardised values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from swarmnode.scheduling.alignment import standardised
from swarmnode.scheduling.scheduler import ByDomain, State

LAYER_FEATURES = 2


@dataclass(frozen=True, slots=True)
class Layout:
    """How many numbers of which kind an observation has."""

    domains: int
    layers: int
    absolute: bool
    """Whether levels are shown beside differences between domains. The published code shows
    differences alone, which hides how far training has come from everything but t."""

    @property
    def domain_features(self) -> int:
        """Numbers for each domain."""
        return 5 if self.absolute else 3

    @property
    def global_features(self) -> int:
        """Numbers for the whole."""
        return 2 if self.absolute else 1

    @property
    def length(self) -> int:
        """Numbers of an observation."""
        return (
            self.domains * self.domain_features
            + self.layers * LAYER_FEATURES
            + self.global_features
        )


def observation(state: State, layout: Layout, first_loss: float | None) -> list[float]:
    """The numbers of a state, as HDS's code standardises them: over domains and over layers.

    With `absolute` also each domain's share of the samples, its loss over `first_loss` (the mean
    loss of the step that first had one), and the mean of the latter.
    """
    columns = [
        standardised(state.samples),
        _standardised_known(state.losses),
        _standardised_known(state.loss_changes),
    ]
    if layout.absolute:
        levels = _levels(state.losses, first_loss)
        columns += [_shares(state.samples), levels]
    domains = [value for row in zip(*columns, strict=True) for value in row]
    whole = [_progress(state)]
    if layout.absolute:
        whole.append(math.fsum(levels) / len(levels))
    return [*domains, *_layers(state, layout.layers), *whole]


def mean_loss(losses: ByDomain) -> float | None:
    """The mean of the known ones; None where none is."""
    known = [loss for loss in losses if loss is not None]
    return math.fsum(known) / len(known) if known else None


def _progress(state: State) -> float:
    """t / T over [-1, 1]; steps on a log scale where T is unknown.

    The published code has 100 t / T, which drowns whatever else a network sees.
    """
    if not state.total_steps:
        return math.log1p(state.step) / 10.0
    return 2.0 * state.progress - 1.0


def _levels(losses: ByDomain, first_loss: float | None) -> list[float]:
    if not first_loss:
        return [0.0] * len(losses)
    return [0.0 if loss is None else loss / first_loss - 1.0 for loss in losses]


def _shares(samples: Sequence[float]) -> list[float]:
    total = math.fsum(samples)
    return [len(samples) * count / total - 1.0 if total else 0.0 for count in samples]


def _standardised_known(values: ByDomain) -> list[float]:
    known = [value for value in values if value is not None]
    if not known:
        return [0.0] * len(values)
    scaled = iter(standardised(known))
    return [0.0 if value is None else next(scaled) for value in values]


def _layers(state: State, layers: int) -> list[float]:
    columns = [
        standardised(values) if len(values) == layers else [0.0] * layers
        for values in (state.layer_norms, state.layer_changes)
        if layers
    ]
    return [value for row in zip(*columns, strict=True) for value in row]
