"""A node's scheduler in the policy host: it sees the policy's gradients, and tells shares alone.

The daemon tells what a round's own groups gave; what the training step's gradients say of it, task
by task, and how the layers moved is added here. Everything is kept with the policy's checkpoint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from swarmnode.config.scheduling import Scheduling
from swarmnode.scheduling.agent.build import Scheduled, build
from swarmnode.scheduling.agent.gradients import (
    DomainGradients,
    LayerChanges,
    late_layers,
    layer_matrices,
)
from swarmnode.scheduling.scheduler import (
    Outcome,
    Scheduler,
    State,
    advance,
    beginning,
)

LOSS_SMOOTHING = 0.5
"""Share of the old value in a task's failures: a round asks a task a few questions or none."""

AGENT_BATCH = 16
"""Transitions in an update of hds: a node has as many steps as rounds, few, and has to decide."""


@dataclass(frozen=True, slots=True)
class HostedOrder:
    """What a host needs to make a node's scheduler."""

    settings: Scheduling
    tasks: tuple[str, ...]
    """In the order of all values by domain."""
    total_rounds: int
    """0 where nobody knows."""
    seed: int

    @classmethod
    def from_values(cls, values: Mapping[str, Any], seed: int) -> HostedOrder:
        """Of what the daemon sends."""
        settings = Scheduling.model_validate(values["settings"])
        return cls(settings, tuple(values["tasks"]), values["total_rounds"], seed)


class HostedScheduler:
    """The scheduler of one policy; it watches the policy's training steps (GradientWatcher)."""

    def __init__(self, order: HostedOrder, model: nn.Module) -> None:
        self._order = order
        matrices = layer_matrices(model)
        self._selected = [matrices[layer] for layer in late_layers(len(matrices))]
        self._size = sum(parameter.numel() for parameter in model.parameters())
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._scheduler = self._made()
        self._state = beginning(
            len(self._order.tasks),
            total_steps=self._order.total_rounds,
            smoothing=LOSS_SMOOTHING,
        )
        self._shares: tuple[float, ...] | None = None
        self._gradients: DomainGradients | None = None
        self._changes = LayerChanges(self._selected)

    def _made(self) -> Scheduler:
        scheduled = Scheduled(
            domains=len(self._order.tasks),
            layers=len(self._selected),
            model_parameters=self._size,
            total_steps=self._order.total_rounds,
            seed=self._order.seed,
            signal="learnability",
            agent_batch=AGENT_BATCH,
        )
        return build(self._order.settings, scheduled)

    def weights(self) -> Sequence[float]:
        """The shares of the round that is next or under way: asked twice, they are the same."""
        if self._shares is None:
            self._shares = tuple(self._scheduler.weights(self._state))
        return self._shares

    def begin(self) -> None:
        """The gradients of a training step begin to add up."""
        self._gradients = DomainGradients(self._selected, len(self._order.tasks))

    def took(self, task: str, weight: float) -> None:
        """A task's groups have been added; what is of no task of ours, or weighs nothing, isn't
        looked at."""
        assert self._gradients is not None
        if task in self._order.tasks and weight > 0.0:
            self._gradients.took(self._order.tasks.index(task), scale=weight)
        else:
            self._gradients.passed_over()

    def update(self, told: Mapping[str, Any]) -> Mapping[str, float]:
        """End the round: learn from what its own groups gave, and from the step if there was one.

        `told` are values by task under the names of Outcome. Returns metrics.
        """
        norms, changes = self._changes.taken()
        outcome = Outcome(
            weights=tuple(self.weights()),
            samples=tuple(told["samples"]),
            losses=tuple(told["losses"]),
            learnability=tuple(told["learnability"]),
            diversity=tuple(told["diversity"]),
            gradient_products=self._gradients.products() if self._gradients else (),
            layer_norms=norms,
            layer_changes=changes,
        )
        metrics = self._scheduler.update(outcome)
        self._state = advance(self._state, outcome)
        self._shares, self._gradients = None, None
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """All that the shares of later rounds depend on, beside policy and order."""
        return {
            "kind": self._order.settings.kind,
            "tasks": list(self._order.tasks),
            "scheduler": self._scheduler.state_dict(),
            "state": self._state.to_values(),
            "shares": None if self._shares is None else list(self._shares),
        }

    def load_state_dict(self, saved: Mapping[str, Any] | None) -> None:
        """Go on from what `state_dict` gave, once the policy is the one that it was saved with.

        What another kind, another size or other tasks had learned is left behind.
        """
        self._begin_anew()
        if saved is None or (saved["kind"], tuple(saved["tasks"])) != (
            self._order.settings.kind,
            self._order.tasks,
        ):
            return
        scheduler = self._made()
        try:
            scheduler.load_state_dict(saved["scheduler"])
        except (KeyError, RuntimeError, TypeError, ValueError):
            return
        self._scheduler = scheduler
        state = State.from_values(saved["state"])
        self._state = replace(state, total_steps=self._order.total_rounds)
        self._shares = None if saved["shares"] is None else tuple(saved["shares"])
