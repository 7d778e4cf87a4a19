"""Where a completion's answer is, found in linear time and within fixed caps.

Knows nothing of tasks. The last `</answer>` and the nearest `<answer>` before it enclose the
answer; a text without such a pair is an answer as a whole. reasoning-gym's own extraction is
quadratic in unclosed tags and is not used.
"""

from __future__ import annotations

OPENING_TAG = "<answer>"
CLOSING_TAG = "</answer>"
COMPLETION_BYTES = 16 * 1024
"""A longer completion has no answer."""


def extract_answer(completion: str, answer_bytes: int) -> str | None:
    """The stripped answer, or None when the completion or the answer is over its cap in bytes."""
    if _over(completion, COMPLETION_BYTES):
        return None
    answer = _enclosed(completion).strip()
    return None if _over(answer, answer_bytes) else answer


def _enclosed(completion: str) -> str:
    end = completion.rfind(CLOSING_TAG)
    start = completion.rfind(OPENING_TAG, 0, end) if end >= 0 else -1
    return completion if start < 0 else completion[start + len(OPENING_TAG) : end]


def _over(text: str, limit: int) -> bool:
    """Whether the text exceeds `limit` bytes of UTF-8; lone surrogates count as three."""
    return len(text) > limit or len(text.encode("utf-8", "surrogatepass")) > limit
