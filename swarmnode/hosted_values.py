"""Between the plain values that the daemon speaks in and what a policy is trained on."""

from __future__ import annotations

from typing import Any

from swarmnode.policy.policy import Policy
from swarmnode.training import TrainingGroup
from swarmnode.types import Completion


def fields_of(completion: Completion) -> list[Any]:
    """A completion as it goes to the daemon."""
    return [
        completion.text,
        completion.finish_reason,
        completion.token_ids,
        completion.logprobs,
    ]


def training_group(policy: Policy, group: dict[str, Any]) -> TrainingGroup:
    """Encode a group; a peer's text is re-encoded, its log-probs kept only where they fit."""
    completions, logprobs = [], []
    for text, finish_reason, token_ids, sampled in group["completions"]:
        if token_ids is None or group["source"] == "external":
            token_ids = policy.encode_completion(text, finish_reason)
        fits = sampled is not None and group["same_tokenizer"] and len(sampled) == len(token_ids)
        completions.append(tuple(token_ids))
        logprobs.append(tuple(sampled) if fits else None)
    return TrainingGroup(
        prompt_ids=tuple(policy.encode_prompt(group["prompt"], group["task"])),
        completions=tuple(completions),
        truncated=tuple(reason == "length" for _, reason, _, _ in group["completions"]),
        rewards=tuple(group["rewards"]),
        source=group["source"],
        task=group["task"],
        sampler_logprobs=tuple(logprobs),
        total_logprobs=tuple(group["total_logprobs"]),
        same_tokenizer=group["same_tokenizer"],
        origin=group["origin"],
        excluded=frozenset(group["excluded"]),
    )
