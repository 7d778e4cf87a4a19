"""What the log shows of a round's answers, so that a person sees how the policy writes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import structlog

from swarmnode.types import Scored

SHOWN_CHARACTERS = 400
"""Of a question or an answer; of a longer text the log shows the end of a question, where what is
asked mostly stands, and the start and the end of an answer."""


log = structlog.get_logger()


class Samples:
    """Shows answers now and then."""

    def __init__(self, every_seconds: float) -> None:
        self._every_seconds = every_seconds
        self._shown = -math.inf

    def look(self, local: Sequence[Scored], now: float) -> None:
        """Log a question with answers to it, if it is time."""
        if local and now - self._shown >= self._every_seconds:
            self._shown = now
            log.info("answers", **sample(local))


def sample(local: Sequence[Scored]) -> dict[str, str]:
    """A question with a right and a wrong answer to it; of a live group where there is one.

    Empty without groups. What no answer of the group is stays out.
    """
    if not local:
        return {}
    shown = next((scored for scored in local if scored.live), local[0])
    question = shown.group.question
    fields = {
        "task": question.task,
        "question": _end(question.text),
        "reference": _both_ends(question.answer),
    }
    for name, success in (("right", 1.0), ("wrong", 0.0)):
        for completion, mark in zip(shown.group.completions, shown.successes, strict=True):
            if mark == success:
                cut_off = " (cut off)" if completion.finish_reason == "length" else ""
                fields[name] = _both_ends(completion.text) + cut_off
                break
    return fields


def _end(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else "… " + text[-SHOWN_CHARACTERS:]


def _both_ends(text: str) -> str:
    half = SHOWN_CHARACTERS // 2
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:half]} … {text[-half:]}"
