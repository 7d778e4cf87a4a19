"""`hds`: the Holistic Data Scheduler (arXiv 2606.24133), algorithm 1.

A step: observe s, draw shares a ~ π(·|s), let the model learn from samples drawn by a, compute the
reward, observe s', remember (s, a, r, s'), and update the agent N_ac times. The article's index
t + 1 on the action of step t is taken as the action that the step's samples were drawn by.

Departures of `corrected`, the default; each is a setting, and `paper` takes none of them:

- Rewards: rewards.py and alignment.py, with their reasons. The weights are 1, 0.1, 0.1 rather than
  1, 10, 10, since all terms are of about one in size here, and the article finds alignment to
  matter most, stability least.
- The scalar reward is standardised by what is remembered, since critics fit values of about one.
- The target entropy is one that can be reached (sac.py).
- The agent starts at the static weights rather than at equal ones, so that nothing jumps when the
  warm-up ends; it also sees levels of losses (observation.py).
- Warm-up of at least two batches; rates of the agent for runs of hundreds of steps.

In both variants: the scalarisation by the drawn shares, which the article leaves open (rewards.py);
a Dirichlet density (networks.py); no dropout; no weight decay of the agent; losses in the state are
what the caller measures (the article: validation; its code: training).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from swarmnode.config.scheduling import Hds
from swarmnode.scheduling.agent.chance import Chance
from swarmnode.scheduling.agent.replay import Replay, Transitions, standardised_rewards
from swarmnode.scheduling.agent.sac import SoftActorCritic
from swarmnode.scheduling.agent.sizes import PAPER, size_for
from swarmnode.scheduling.observation import Layout, mean_loss, observation
from swarmnode.scheduling.rewards import Rewards
from swarmnode.scheduling.scheduler import Outcome, State, advance
from swarmnode.scheduling.simplex import mixed_with_equal, normalised

PRIOR_LEAST = 1e-3
"""Least share that an agent starts from: a softmax can't leave 0."""


class HolisticDataScheduler:
    """A soft actor-critic that is paid by three rewards."""

    def __init__(
        self,
        settings: Hds,
        static_weights: Sequence[float],
        *,
        batch: int,
        layers: int,
        model_parameters: int,
        total_steps: int,
        seed: int,
    ) -> None:
        """`batch` is how many transitions an update takes, `layers` how many layers' norms outcomes
        will have, `total_steps` 0 if unknown.

        Raises ValueError for weights that are no shares.
        """
        self._settings = settings
        self._static = normalised(static_weights)
        domains = len(self._static)
        self._layout = Layout(domains, layers, settings.absolute_state)
        self._batch_size = batch
        least = settings.warmup_batches * batch
        self._warmup_steps = round(max(settings.warmup_share * total_steps, least))
        paper = settings.size == "paper"
        self.size = PAPER if paper else size_for(model_parameters, settings.size_share)
        prior = self._static if settings.start_at_static else (1.0 / domains,) * domains
        self._chance = Chance(seed)
        with self._chance.drawing():
            self._agent = SoftActorCritic(
                self._layout, self.size, mixed_with_equal(prior, PRIOR_LEAST), settings
            )
        self._replay = Replay(settings.replay, self._layout.length, domains)
        self._rewards = Rewards(settings, domains)
        self._first_loss: float | None = None
        self._pending: tuple[State, Tensor, Tensor] | None = None

    def weights(self, state: State) -> Sequence[float]:
        """Shares drawn by the policy; static ones with noise during the warm-up."""
        seen = self._observe(state)
        with self._chance.drawing():
            warm = state.step < self._warmup_steps
            shares = self._noisy_static() if warm else self._agent.act(seen)
        self._pending = (state, seen, shares)
        return [float(share) for share in shares]

    def update(self, outcome: Outcome) -> Mapping[str, float]:
        """Remember the step and learn. Raises RuntimeError before the first `weights`."""
        if self._pending is None:
            raise RuntimeError("update without weights before it")
        state, seen, shares = self._pending
        self._pending = None
        reward = self._rewards.take(state, outcome)
        if self._first_loss is None:
            self._first_loss = mean_loss(outcome.losses)
        following = self._observe(advance(state, outcome))
        self._replay.add(seen, shares, reward.scalar, following)
        metrics = dict(reward.metrics)
        if state.step >= self._warmup_steps:
            with self._chance.drawing():
                for _ in range(self._settings.updates_per_step):
                    metrics |= self._agent.update(self._batch())
        return metrics

    def _observe(self, state: State) -> Tensor:
        return torch.tensor(observation(state, self._layout, self._first_loss))

    def _noisy_static(self) -> Tensor:
        """Static shares + N(0, σ) each; what falls below 0 is 0, and the sum is made 1 again."""
        noise = torch.randn(len(self._static)) * self._settings.warmup_noise
        noisy = (torch.tensor(self._static) + noise).clamp_min(0.0)
        return noisy / noisy.sum() if noisy.sum() > 0.0 else torch.tensor(self._static)

    def _batch(self) -> Transitions:
        batch = self._replay.drawn(self._batch_size)
        standardise = self._settings.reward_normalisation
        return standardised_rewards(self._replay, batch) if standardise else batch

    def state_dict(self) -> dict[str, Any]:
        """As Scheduler says; also between `weights` and `update`."""
        pending = None
        if self._pending is not None:
            state, seen, shares = self._pending
            pending = [state.to_values(), seen.clone(), shares.clone()]
        return {
            "agent": self._agent.state_dict(),
            "replay": self._replay.state_dict(),
            "rewards": self._rewards.state_dict(),
            "chance": self._chance.state.clone(),
            "first_loss": self._first_loss,
            "pending": pending,
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """As Scheduler says."""
        self._agent.load_state_dict(saved["agent"])
        self._replay.load_state_dict(saved["replay"])
        self._rewards.load_state_dict(saved["rewards"])
        self._chance.state = saved["chance"].clone()
        self._first_loss = saved["first_loss"]
        pending = saved["pending"]
        self._pending = None
        if pending is not None:
            state, seen, shares = pending
            self._pending = (State.from_values(state), seen.clone(), shares.clone())
