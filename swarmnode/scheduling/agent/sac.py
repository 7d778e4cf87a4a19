"""A soft actor-critic over shares: twin critics with Polyak targets, and a learned temperature.

Knows observations, shares and rewards as tensors; neither domains nor language models. Everything
is float32 on the CPU and small, so that it neither takes memory from the model nor waits for it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from swarmnode.config.scheduling import Hds
from swarmnode.scheduling.agent.losses import (
    actor_loss,
    critic_loss,
    critic_targets,
    temperature_loss,
)
from swarmnode.scheduling.agent.networks import Actor, Critics, drawn
from swarmnode.scheduling.agent.replay import Transitions
from swarmnode.scheduling.agent.sizes import Size
from swarmnode.scheduling.agent.vector import Vector
from swarmnode.scheduling.observation import Layout

GRADIENT_NORM_MOST = 10.0
"""Longer gradients are scaled down to this; a departure, for the first critics' large errors."""


def target_entropy(domains: int, settings: Hds) -> float:
    """Nats. -K as in the published code, or, by default, one that can be reached.

    The highest differential entropy over K shares is that of the equal density, -ln((K - 1)!). It
    falls below -K at K = 9; from there on, a temperature that steers to -K grows without bound and
    the policy stays equal for ever.
    """
    if settings.target_entropy == "dimension":
        return -float(domains)
    return -math.lgamma(domains) - settings.entropy_per_dimension * (domains - 1)


class SoftActorCritic:
    """Five networks, three optimizers, and the updates among them."""

    def __init__(self, layout: Layout, size: Size, prior: Sequence[float], settings: Hds) -> None:
        """Draws the networks from the process's generator; `prior` is that of Actor."""
        self.actor = Actor(layout, size, prior)
        self.critics = Critics(layout, size)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = torch.tensor(
            math.log(settings.initial_temperature), requires_grad=True
        )
        self._discount = settings.discount
        self._rate = settings.target_rate
        self._target_entropy = target_entropy(layout.domains, settings)
        self._target_vector = Vector(list(self.targets.parameters()))
        self._vectors = {
            "critics": Vector(list(self.critics.parameters())),
            "actor": Vector(list(self.actor.parameters())),
            "temperature": Vector([self.log_temperature]),
        }
        rates = dict.fromkeys(self._vectors, settings.learning_rate)
        rates["temperature"] = settings.temperature_learning_rate
        self._optimizers = {
            name: torch.optim.Adam([vector.whole], lr=rates[name], fused=True)
            for name, vector in self._vectors.items()
        }

    @property
    def temperature(self) -> Tensor:
        """α; no gradient."""
        return self.log_temperature.detach().exp()

    @torch.no_grad()
    def act(self, observation: Tensor) -> Tensor:
        """Shares drawn in one observation: (length,) to (K,)."""
        return drawn(self.actor(observation.unsqueeze(0)))[0].squeeze(0)

    def update(self, batch: Transitions) -> dict[str, float]:
        """One update of critics, actor, temperature and targets, in this order (algorithm 1)."""
        of_critics = self.critic_loss(batch)
        skipped = self._step("critics", of_critics)
        of_actor, log_densities = self.actor_loss(batch.observations)
        skipped += self._step("actor", of_actor)
        of_temperature = temperature_loss(self.log_temperature, log_densities, self._target_entropy)
        skipped += self._step("temperature", of_temperature)
        self._follow()
        return {
            "scheduler/critic_loss": float(of_critics.detach()),
            "scheduler/actor_loss": float(of_actor.detach()),
            "scheduler/entropy": -float(log_densities.detach().mean()),
            "scheduler/temperature": float(self.temperature),
            "scheduler/skipped_updates": float(skipped),
        }

    def critic_loss(self, batch: Transitions) -> Tensor:
        """Both critics' errors against targets drawn now."""
        with torch.no_grad():
            shares, log_densities = drawn(self.actor(batch.next_observations))
            following = self.targets(batch.next_observations, shares).amin(dim=0)
        targets = critic_targets(
            batch.rewards,
            following,
            log_densities,
            discount=self._discount,
            temperature=self.temperature,
        )
        return critic_loss(self.critics(batch.observations, batch.shares), targets)

    def actor_loss(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """The loss, and the log densities of the shares drawn for it."""
        shares, log_densities = drawn(self.actor(observations))
        values = self.critics(observations, shares).amin(dim=0)
        return actor_loss(log_densities, values, self.temperature), log_densities

    def _step(self, name: str, loss: Tensor) -> int:
        """Step down a loss; a gradient that is not finite changes nothing and counts as 1."""
        vector = self._vectors[name]
        vector.clear()
        # The actor's loss goes through the critics, whose own gradients nobody needs then.
        loss.backward(inputs=vector.parts)  # type: ignore[no-untyped-call]
        norm = nn.utils.clip_grad_norm_(vector.whole, GRADIENT_NORM_MOST)
        if not math.isfinite(norm):
            return 1
        self._optimizers[name].step()
        return 0

    @torch.no_grad()
    def _follow(self) -> None:
        """θ' ← τ θ + (1 - τ) θ' (Polyak)."""
        self._target_vector.whole.lerp_(self._vectors["critics"].whole, self._rate)

    def state_dict(self) -> dict[str, Any]:
        """Networks and optimizers; the tensors are copies."""
        modules = {"actor": self.actor, "critics": self.critics, "targets": self.targets}
        saved: dict[str, Any] = {name: module.state_dict() for name, module in modules.items()}
        saved["log_temperature"] = self.log_temperature.detach()
        for name, optimizer in self._optimizers.items():
            saved[f"optimizer_{name}"] = optimizer.state_dict()
        return copy.deepcopy(saved)

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        self.actor.load_state_dict(saved["actor"])
        self.critics.load_state_dict(saved["critics"])
        self.targets.load_state_dict(saved["targets"])
        with torch.no_grad():
            self.log_temperature.copy_(saved["log_temperature"])
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(copy.deepcopy(saved[f"optimizer_{name}"]))
