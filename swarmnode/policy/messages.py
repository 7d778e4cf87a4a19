"""What passes between daemon and policy host about questions and groups, as plain values.

The daemon's side; what the host makes of them is hosted_policy.py's. Imports no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from swarmnode.types import Completion, Question, Scored


def asked(questions: Sequence[Question]) -> dict[str, list[str]]:
    """What is to be answered."""
    return {
        "prompts": [question.text for question in questions],
        "tasks": [question.task for question in questions],
    }


def described(
    scored: Scored, rewards: Sequence[float], tokenizer_fingerprint: bytes
) -> dict[str, Any]:
    """A group to be trained on; `tokenizer_fingerprint` is our own policy's.

    Of a peer's group the token ids are left out: they would be its own claim.
    """
    group = scored.group
    return {
        "prompt": group.question.text,
        "task": group.question.task,
        "source": scored.source,
        "rewards": rewards,
        "excluded": sorted(scored.excluded),
        "judged": _judged(group.completions),
        "origin": group.publisher.hex(),
        "total_logprobs": [_total_logprob(completion) for completion in group.completions],
        "same_tokenizer": group.policy.tokenizer_fingerprint == tokenizer_fingerprint,
        "completions": [
            [
                completion.text,
                completion.finish_reason,
                completion.token_ids if scored.source == "local" else None,
                completion.logprobs,
            ]
            for completion in group.completions
        ],
    }


def completion_of(fields: Sequence[Any]) -> Completion:
    """A completion as the host gives it."""
    text, finish_reason, token_ids, logprobs, *judged = fields
    return Completion(
        text=text,
        finish_reason=finish_reason,
        token_count=len(token_ids),
        token_ids=tuple(token_ids),
        logprobs=None if logprobs is None else tuple(logprobs),
        judged=judged[0] if judged else {},
    )


def _judged(completions: Sequence[Completion]) -> dict[str, list[float]]:
    """By channel, where every completion was judged."""
    names = set.intersection(*(set(one.judged) for one in completions)) if completions else set()
    return {name: [one.judged[name] for one in completions] for name in sorted(names)}


def _total_logprob(completion: Completion) -> float | None:
    """Of the whole completion; None where it is unknown."""
    return sum(completion.logprobs) if completion.logprobs else completion.total_logprob
