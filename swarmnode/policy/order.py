"""What a policy host needs to make one policy. Plain values; imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class PolicyOrder:
    """What a host needs to make one policy; all texts, no weights."""

    policy: Mapping[str, Any]
    """The settings' section of that name, as plain values."""
    training: Mapping[str, Any]
    channels: Mapping[str, Any]
    """The same of `rewards.channels`."""
    seed: int
    """Random seed of the specialist's training order."""
    sampling_seed: int
    """Random seed of the sampling, where no checkpoint brings its generator."""
    shared_seed: int
    """Random seed of the starting weights and of the base, the same for the whole swarm."""
    base_pairs: Sequence[tuple[str, str]]
    """Questions and answers that every policy of the swarm starts with."""
    skill_pairs: Sequence[tuple[str, str]]
    """Questions and answers of this policy's own skills."""
    cache_folder: str | None
    """Where warm starts are kept."""
    examples: Mapping[str, Sequence[tuple[str, str]]]
    """Questions and answers that come before each question, by task."""
    log_prob_gate: Mapping[str, Any] = field(default_factory=dict)
    """The settings of `selection.log_prob_gate`."""
    rounds: Mapping[str, Any] | None = None
    """The settings' section of that name; None for a policy that isn't trained here."""
    scheduling: Mapping[str, Any] | None = None
    """`settings` of that section, the `tasks` in their order, and `total_rounds`, 0 if unknown;
    None where the host has no scheduler."""
    weights_home: str | None = None
    """The node's home, to which the place belongs where weights go from the trainer to generators;
    None where the policy samples for itself. With it, own completions are corrected for what
    sampled them."""
    generator: int = 0
    """Which of the node's generators it is for, from 1 on; 0 for a policy that is trained."""

    def payload(self, number: int) -> dict[str, Any]:
        """The request of the policy of that number in its host."""
        return {"number": number} | {each.name: getattr(self, each.name) for each in fields(self)}
