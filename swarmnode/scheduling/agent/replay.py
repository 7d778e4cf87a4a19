"""Transitions that an agent learns from: a ring of tensors that forgets the oldest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

REWARD_MOST = 5.0


@dataclass(frozen=True, slots=True)
class Transitions:
    """Some transitions: (n, length), (n, K), (n,), (n, length)."""

    observations: Tensor
    shares: Tensor
    rewards: Tensor
    next_observations: Tensor


class Replay:
    """At most `capacity` transitions."""

    def __init__(self, capacity: int, length: int, domains: int) -> None:
        self._capacity = capacity
        self._width = 2 * length + domains + 1
        self._parts = [length, domains, 1, length]
        # Grown as needed: most runs never come near the capacity.
        self._rows = torch.zeros(min(capacity, 256), self._width)
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(
        self, observation: Tensor, shares: Tensor, reward: float, next_observation: Tensor
    ) -> None:
        """Remember one transition."""
        if self._next == len(self._rows):
            wanted = min(self._capacity, 2 * len(self._rows))
            grown = torch.zeros(wanted, self._width)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        parts = (observation, shares, torch.tensor([reward]), next_observation)
        self._rows[self._next] = torch.cat(parts)
        self._count = max(self._count, self._next + 1)
        self._next = (self._next + 1) % self._capacity

    def drawn(self, count: int) -> Transitions:
        """`count` of them, with replacement, by the process's generator. Raises IndexError for an
        empty memory."""
        if not self._count:
            raise IndexError("nothing is remembered yet")
        rows = self._rows[torch.randint(self._count, (count,))]
        observations, shares, rewards, following = torch.split(rows, self._parts, dim=-1)
        return Transitions(observations, shares, rewards.squeeze(-1), following)

    @property
    def rewards(self) -> Tensor:
        """All that are remembered: (n,)."""
        return self._rows[: self._count, self._parts[0] + self._parts[1]]

    def state_dict(self) -> dict[str, Any]:
        """What is remembered."""
        return {"rows": self._rows[: self._count].clone(), "next": self._next}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave."""
        rows = saved["rows"]
        self._count = len(rows)
        self._next = saved["next"]
        room = max(len(rows), min(self._capacity, 256))
        self._rows = torch.zeros(room, self._width)
        self._rows[: self._count] = rows


def standardised_rewards(replay: Replay, batch: Transitions) -> Transitions:
    """The batch with rewards in deviations from the mean of all that is remembered, cut at
    REWARD_MOST: critics fit values of about one, and a constant tells nothing of actions."""
    known = replay.rewards
    deviation = known.std(correction=0).clamp_min(1e-6)
    scaled = ((batch.rewards - known.mean()) / deviation).clamp(-REWARD_MOST, REWARD_MOST)
    return replace(batch, rewards=scaled)
