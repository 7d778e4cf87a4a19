"""Preference pairs out of a policy's own groups: a right answer and a wrong one to one question.

Pure.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from swarmnode.types import SUCCESS_THRESHOLD, Scored


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to a question; the first is right, the second is wrong."""

    question: str
    chosen: str
    rejected: str


def pairs_of(groups: Sequence[Scored], most: int, rng: random.Random) -> list[Pair]:
    """At most `most` different pairs of each group; none of one without both kinds.

    Answers that were cut off are left out: a trainer would end them where they did not end.
    """
    pairs: list[Pair] = []
    for scored in groups:
        whole = [
            (completion.text, score >= SUCCESS_THRESHOLD)
            for completion, score in zip(scored.group.completions, scored.scores, strict=True)
            if completion.finish_reason == "stop"
        ]
        right = sorted({text for text, success in whole if success})
        wrong = sorted({text for text, success in whole if not success})
        question = scored.group.question.text
        found = [Pair(question, chosen, rejected) for chosen in right for rejected in wrong]
        pairs += rng.sample(found, min(most, len(found)))
    return pairs


def line_of(pair: Pair) -> str:
    """As `swarmnode reward-model train` reads it."""
    said = {"prompt": pair.question, "chosen": pair.chosen, "rejected": pair.rejected}
    return json.dumps(said, ensure_ascii=False) + "\n"
