"""Sampled answers to the ordering task as groups that a trainer takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from swarmnode.policy.policy import Policy
from swarmnode.training import TrainingGroup
from swarmnode.types import Completion
from tests.benchmarks.ordering import TASK, Asked

Right = Callable[[Asked, Completion], bool]


def group_of(
    policy: Policy, asked: Asked, completions: Sequence[Completion], right: Right, **further: Any
) -> TrainingGroup:
    """A group that is rewarded where `right` says so; `further` are fields of TrainingGroup."""
    return TrainingGroup(
        prompt_ids=tuple(policy.encode_prompt(asked.text)),
        completions=tuple(each.token_ids or () for each in completions),
        truncated=tuple(each.finish_reason == "length" for each in completions),
        rewards=tuple(float(right(asked, each)) for each in completions),
        source="local",
        task=TASK,
        **further,
    )


def sampler_logprobs(completions: Sequence[Completion]) -> tuple[tuple[float, ...] | None, ...]:
    """What the sampler said of each token."""
    return tuple(each.logprobs for each in completions)
