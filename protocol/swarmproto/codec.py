"""Groups to bytes and back.

Knows the group record. Encoding ends by decoding its own bytes, so nothing can be sent that a
receiver would refuse. Source: protocol/README.md, section 4.1.
"""

import math
import struct
from collections.abc import Sequence
from typing import Final

from swarmproto.errors import Reason, WireError
from swarmproto.fields import Fields, as_log_probability
from swarmproto.limits import (
    ANSWER_BYTES_MAX,
    COMPLETION_BYTES_MAX,
    COMPLETION_TOKENS_MAX,
    COMPLETIONS_MAX,
    COMPLETIONS_MIN,
    FINGERPRINT_BYTES,
    GROUP_LIMITS,
    INDEX_MAX,
    QUESTION_BYTES_MAX,
)
from swarmproto.records import CompletionRecord, FinishReason, GroupRecord
from swarmproto.scan import pack, unpack

ROUNDING_ABOVE_ZERO: Final = 1e-3
"""A log-probability up to this much above 0 is taken for rounding by `pack_logprobs`."""


def pack_logprobs(values: Sequence[float]) -> bytes:
    """Little-endian float32; rounding above 0 becomes 0, more raises WireError."""
    for value in values:
        if not math.isfinite(value):
            raise WireError(Reason.NONFINITE, "a log-probability that is not finite")
        if value > ROUNDING_ABOVE_ZERO:
            raise WireError(Reason.RANGE, "a log-probability above 0")
    try:
        return struct.pack(f"<{len(values)}f", *(min(value, 0.0) for value in values))
    except OverflowError:
        raise WireError(Reason.RANGE, "a log-probability beyond float32") from None


def unpack_logprobs(packed: bytes) -> tuple[float, ...]:
    """One float per token; raises WireError unless all are finite and at most 0."""
    if len(packed) % 4:
        raise WireError(Reason.RANGE, "log-probabilities are four bytes each")
    values = struct.unpack(f"<{len(packed) // 4}f", packed)
    if not all(map(math.isfinite, values)):
        raise WireError(Reason.NONFINITE, "a log-probability that is not finite")
    if max(values, default=0.0) > 0.0:
        raise WireError(Reason.RANGE, "a log-probability above 0")
    return values


def _finish_reason(value: object) -> FinishReason:
    if type(value) is not str:
        raise WireError(Reason.WRONG_TYPE, "expected a text")
    if value == "stop":
        return "stop"
    if value == "length":
        return "length"
    raise WireError(Reason.RANGE, "an unknown finish reason")


def _completion(value: object) -> CompletionRecord:
    fields = Fields.of(value)
    token_count = fields.integer("tokens", 0, COMPLETION_TOKENS_MAX)
    logprobs, total = None, None
    if "logprobs" in fields:
        logprobs = fields.binary("logprobs", 4 * token_count, 4 * token_count)
        unpack_logprobs(logprobs)
    if "total" in fields:
        total = as_log_probability(fields.value("total"))
    if logprobs is not None and total is not None:
        raise WireError(Reason.CONFLICT, "log-probabilities both per token and in total")
    return CompletionRecord(
        text=fields.text("text", 0, COMPLETION_BYTES_MAX),
        finish_reason=_finish_reason(fields.value("finish")),
        token_count=token_count,
        logprobs=logprobs,
        total_logprob=total,
    )


def decode_group(data: bytes) -> GroupRecord:
    """Raises WireError."""
    fields = Fields.of(unpack(data, GROUP_LIMITS))
    completions = fields.array("completions", COMPLETIONS_MIN, COMPLETIONS_MAX)
    return GroupRecord(
        task=fields.name("task"),
        level=fields.name("level"),
        index=fields.integer("index", 0, INDEX_MAX),
        fingerprint=fields.binary("fingerprint", FINGERPRINT_BYTES, FINGERPRINT_BYTES),
        question=fields.text("question", 1, QUESTION_BYTES_MAX),
        answer=fields.text("answer", 0, ANSWER_BYTES_MAX),
        completions=tuple(_completion(value) for value in completions),
    )


def _completion_map(completion: CompletionRecord) -> dict[str, object]:
    values: dict[str, object] = {
        "text": completion.text,
        "finish": completion.finish_reason,
        "tokens": completion.token_count,
    }
    if completion.logprobs is not None:
        values["logprobs"] = completion.logprobs
    if completion.total_logprob is not None:
        values["total"] = completion.total_logprob
    return values


def encode_group(group: GroupRecord) -> bytes:
    """At most 256 KiB; raises WireError for a group that no receiver would take."""
    data = pack(
        {
            "task": group.task,
            "level": group.level,
            "index": group.index,
            "fingerprint": group.fingerprint,
            "question": group.question,
            "answer": group.answer,
            "completions": [_completion_map(completion) for completion in group.completions],
        }
    )
    decode_group(data)
    return data
