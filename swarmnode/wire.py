"""Between our own values and the records of the wire. Knows no bytes and no network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from swarmnode.types import Completion, Group, PolicyInfo, Question, Scored
from swarmproto import (
    AnnouncedGroup,
    BundleHeader,
    CompletionRecord,
    GroupRecord,
    PolicyLabel,
    pack_logprobs,
    unpack_logprobs,
)

Given = TypeVar("Given")
Made = TypeVar("Made")


def policy_label(policy: PolicyInfo) -> PolicyLabel:
    """What a bundle says of the policy that sampled it."""
    return PolicyLabel(policy.name, policy.version, policy.tokenizer_fingerprint)


def group_record(group: Group, fingerprint: bytes) -> GroupRecord:
    """A group as it is published; `fingerprint` is its level's."""
    question = group.question
    return GroupRecord(
        task=question.task,
        level=question.level,
        index=question.index,
        fingerprint=fingerprint,
        question=question.text,
        answer=question.answer,
        completions=tuple(
            CompletionRecord(
                text=completion.text,
                finish_reason=completion.finish_reason,
                token_count=completion.token_count,
                logprobs=None
                if completion.logprobs is None
                else pack_logprobs(completion.logprobs),
            )
            for completion in group.completions
        ),
    )


def received_group(record: GroupRecord, header: BundleHeader) -> Group:
    """A peer's group; its question and answer are still the peer's words."""
    return Group(
        question=Question(record.task, record.level, record.index, record.question, record.answer),
        completions=tuple(
            Completion(
                text=completion.text,
                finish_reason=completion.finish_reason,
                token_count=completion.token_count,
                logprobs=_unless_none(unpack_logprobs, completion.logprobs),
                total_logprob=completion.total_logprob,
            )
            for completion in record.completions
        ),
        publisher=header.public_key,
        policy=PolicyInfo(
            header.policy.name, header.policy.version, header.policy.tokenizer_fingerprint
        ),
    )


def announced_group(scored: Scored) -> AnnouncedGroup:
    """What an announcement claims of a group, so that others can fetch what is worth having."""
    question = scored.group.question
    return AnnouncedGroup(
        question.task, question.level, int(sum(scored.successes)), len(scored.scores)
    )


def _unless_none(convert: Callable[[Given], Made], value: Given | None) -> Made | None:
    return None if value is None else convert(value)
