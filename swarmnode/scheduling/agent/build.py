"""Every scheduler by its kind, for the policy host, where gradients are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swarmnode.config.scheduling import Scheduling
from swarmnode.scheduling.agent.ac_odm import AcOdm
from swarmnode.scheduling.agent.hds import HolisticDataScheduler
from swarmnode.scheduling.doge import Doge
from swarmnode.scheduling.guarded import Guarded
from swarmnode.scheduling.kinds import without_gradients
from swarmnode.scheduling.reward_softmax import RewardSoftmax
from swarmnode.scheduling.scheduler import Scheduler, Signal
from swarmnode.scheduling.simplex import equal, mixed_with_equal, normalised


@dataclass(frozen=True, slots=True)
class Scheduled:
    """What is scheduled."""

    domains: int
    layers: int
    """Layers whose norms an outcome has."""
    model_parameters: int
    """Of the language model."""
    total_steps: int
    """0 where nobody knows."""
    seed: int
    signal: Signal = "loss"
    """What bandits are paid in."""
    agent_batch: int = 32
    """Transitions in an update of hds, where the settings don't say."""


def build(settings: Scheduling, scheduled: Scheduled) -> Scheduler:
    """The scheduler of `settings.kind`, under guard.

    Raises ValueError for static weights of another number than the domains.
    """
    weights = settings.static_weights or equal(scheduled.domains)
    if len(weights) != scheduled.domains:
        raise ValueError(
            f"scheduling.static_weights has {len(weights)} shares for {scheduled.domains} domains;"
            " give one for each, in their order"
        )
    chosen = _chosen(settings, normalised(weights), scheduled)
    return Guarded(chosen, scheduled.domains, settings.minimum_share)


def _chosen(settings: Scheduling, weights: Sequence[float], scheduled: Scheduled) -> Scheduler:
    match settings.kind:
        case "doge":
            return Doge(
                mixed_with_equal(weights, 1e-3),
                step_size=settings.doge_step_size,
                memory=settings.doge_memory,
            )
        case "reward-softmax":
            return RewardSoftmax(settings, weights)
        case "ac-odm":
            return AcOdm(
                settings.ac_odm,
                weights,
                layers=scheduled.layers,
                total_steps=scheduled.total_steps,
                seed=scheduled.seed,
            )
        case "hds":
            return HolisticDataScheduler(
                settings.hds,
                weights,
                batch=settings.hds.batch or scheduled.agent_batch,
                layers=scheduled.layers,
                model_parameters=scheduled.model_parameters,
                total_steps=scheduled.total_steps,
                seed=scheduled.seed,
            )
        case _:
            return without_gradients(settings, weights, scheduled.signal, scheduled.seed)
