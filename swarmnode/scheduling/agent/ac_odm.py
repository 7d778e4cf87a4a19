"""`ac-odm`: alignment as the reward of a deterministic actor-critic (arXiv 2505.23878, DDPG).

The state is that of HDS; an actor of five layers with layer normalisation gives the shares by a
softmax, a critic values a state with shares, and Polyak targets follow both. During the warm-up
`odm` decides and the actor is taught to do the same. Exploration takes U(0, exploration) from each
share and normalises.

Departures, each for what is broken in the published code (which
never steps the actor, and trains the critic on its negative):

- actor and critic are each stepped by their own loss;
- the reward is Σ_i a_i ⟨g_i, Σ_{j≠i} g_j⟩ / mean ‖g‖, not that vector standardised over domains,
  whose mean is 0 whatever was done; the critic gives one value, not K;
- the scalar reward is standardised by what is remembered;
- the change of a loss is that since the step before, not since the first.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from swarmnode.config.scheduling import AcOdmSettings
from swarmnode.scheduling.agent.chance import Chance
from swarmnode.scheduling.agent.replay import Replay, Transitions, standardised_rewards
from swarmnode.scheduling.alignment import Products, alignments
from swarmnode.scheduling.observation import Layout, observation
from swarmnode.scheduling.odm import Odm
from swarmnode.scheduling.scheduler import Outcome, State, advance

HIDDEN_LAYERS = 5


def _layers(inputs: int, width: int, outputs: int) -> nn.Sequential:
    widths = (inputs, *(width,) * HIDDEN_LAYERS)
    hidden = [
        layer
        for before, after in pairwise(widths)
        for layer in (nn.Linear(before, after), nn.LayerNorm(after), nn.ReLU())
    ]
    return nn.Sequential(*hidden, nn.Linear(width, outputs))


class Networks(nn.Module):
    """Actor and critic."""

    def __init__(self, layout: Layout, width: int) -> None:
        super().__init__()
        self.actor = _layers(layout.length, width, layout.domains)
        self.critic = _layers(layout.length + layout.domains, width, 1)

    def shares(self, observations: Tensor) -> Tensor:
        """(batch, length) to (batch, K)."""
        shares: Tensor = self.actor(observations).softmax(dim=-1)
        return shares

    def values(self, observations: Tensor, shares: Tensor) -> Tensor:
        """(batch, length) and (batch, K) to (batch,)."""
        centred = shares.shape[-1] * shares - 1.0
        values: Tensor = self.critic(torch.cat((observations, centred), dim=-1)).squeeze(-1)
        return values


class AcOdm:
    """Deep deterministic policy gradients over shares."""

    def __init__(
        self,
        settings: AcOdmSettings,
        static_weights: Sequence[float],
        *,
        layers: int,
        total_steps: int,
        seed: int,
    ) -> None:
        """`layers` and `total_steps` are those of HolisticDataScheduler."""
        self._settings = settings
        domains = len(static_weights)
        self._layout = Layout(domains, layers, absolute=False)
        self._warmup_steps = max(settings.batch, round(settings.warmup_share * total_steps))
        self._odm = Odm(static_weights, form="code", smoothing=0.5, warmup_steps=0, signal="loss")
        self._products = Products(domains, settings.gradient_memory)
        self._replay = Replay(settings.replay, self._layout.length, domains)
        self._chance = Chance(seed)
        with self._chance.drawing():
            self._networks = Networks(self._layout, settings.width)
        self._targets = copy.deepcopy(self._networks).requires_grad_(False)
        self._optimizers = {
            name: torch.optim.Adam(
                getattr(self._networks, name).parameters(), lr=settings.learning_rate, fused=True
            )
            for name in ("actor", "critic")
        }
        self._pending: tuple[State, Tensor, Tensor] | None = None

    def weights(self, state: State) -> Sequence[float]:
        """ODM's during the warm-up, then the actor's with noise."""
        seen = self._observe(state)
        with torch.no_grad(), self._chance.drawing():
            if state.step < self._warmup_steps:
                shares = torch.tensor(self._odm.weights(state))
            else:
                shares = self._explored(self._networks.shares(seen.unsqueeze(0)).squeeze(0))
        self._pending = (state, seen, shares)
        return [float(share) for share in shares]

    def _explored(self, shares: Tensor) -> Tensor:
        noisy = (shares - torch.rand_like(shares) * self._settings.exploration).clamp_min(0.0)
        return noisy / noisy.sum() if noisy.sum() > 0.0 else shares

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Remember the step and learn. Raises RuntimeError before the first `weights`."""
        if self._pending is None:
            raise RuntimeError("update without weights before it")
        state, seen, shares = self._pending
        self._pending = None
        self._odm.update(outcome)
        self._products.take(outcome.gradient_products)
        table = self._products.table
        by_domain = alignments(table, "norm") if table else [0.0] * len(outcome.weights)
        reward = math.fsum(a * r for a, r in zip(outcome.weights, by_domain, strict=True))
        self._replay.add(seen, shares, reward, self._observe(advance(state, outcome)))
        with self._chance.drawing():
            told = self._learn(cloning=state.step < self._warmup_steps)
        return {"scheduler/reward": reward, **told}

    def _learn(self, *, cloning: bool) -> dict[str, float]:
        batch = standardised_rewards(self._replay, self._replay.drawn(self._settings.batch))
        of_critic = self._critic_loss(batch)
        skipped = self._step("critic", of_critic)
        chosen = self._networks.shares(batch.observations)
        if cloning:
            of_actor = functional.mse_loss(chosen, batch.shares)
        else:
            of_actor = -self._networks.values(batch.observations, chosen).mean()
        skipped += self._step("actor", of_actor)
        with torch.no_grad():
            for target, followed in zip(
                self._targets.parameters(), self._networks.parameters(), strict=True
            ):
                target.lerp_(followed, self._settings.target_rate)
        return {
            "scheduler/critic_loss": float(of_critic.detach()),
            "scheduler/actor_loss": float(of_actor.detach()),
            "scheduler/skipped_updates": float(skipped),
        }

    def _critic_loss(self, batch: Transitions) -> Tensor:
        """(Q(s, a) - r - γ Q'(s', μ'(s')))²."""
        with torch.no_grad():
            following = self._targets.shares(batch.next_observations)
            values = self._targets.values(batch.next_observations, following)
            targets = batch.rewards + self._settings.discount * values
        return functional.mse_loss(self._networks.values(batch.observations, batch.shares), targets)

    def _step(self, name: str, loss: Tensor) -> int:
        """Step down a loss; a gradient that is not finite changes nothing and counts as 1."""
        parameters = list(getattr(self._networks, name).parameters())
        self._optimizers[name].zero_grad(set_to_none=True)
        loss.backward(inputs=parameters)  # type: ignore[no-untyped-call]
        if not math.isfinite(nn.utils.clip_grad_norm_(parameters, 10.0)):
            return 1
        self._optimizers[name].step()
        return 0

    def _observe(self, state: State) -> Tensor:
        return torch.tensor(observation(state, self._layout, None))

    def state_dict(self) -> dict[str, Any]:
        """As Scheduler says; also between `weights` and `update`."""
        pending = None
        if self._pending is not None:
            state, seen, shares = self._pending
            pending = [state.to_values(), seen, shares]
        return copy.deepcopy(
            {
                "networks": self._networks.state_dict(),
                "targets": self._targets.state_dict(),
                "optimizers": {name: each.state_dict() for name, each in self._optimizers.items()},
                "odm": self._odm.state_dict(),
                "products": self._products.to_values(),
                "replay": self._replay.state_dict(),
                "chance": self._chance.state,
                "pending": pending,
            }
        )

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        saved = copy.deepcopy(dict(saved))
        self._networks.load_state_dict(saved["networks"])
        self._targets.load_state_dict(saved["targets"])
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(saved["optimizers"][name])
        self._odm.load_state_dict(saved["odm"])
        self._products.load_values(saved["products"])
        self._replay.load_state_dict(saved["replay"])
        self._chance.state = saved["chance"]
        self._pending = None
        if saved["pending"] is not None:
            state, seen, shares = saved["pending"]
            self._pending = (State.from_values(state), seen, shares)
