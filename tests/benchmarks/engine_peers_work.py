"""One round of work for the whole-round benchmark, the same for every contestant.

The questions are those of the paper's nine tasks at level easy, one of each of eight tasks a round
and other eight the next. The reward says nothing about the answer: half of a group gets 1, so that
every group of every contestant is trained on whole and no work is saved by an answer's chance.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

LEVEL = "easy"
KEY = hashlib.sha256(b"swarmnode whole-round benchmark").digest()
TEMPERATURE = 1.0
LEARNING_RATE = 1e-6
GRADIENT_CLIP = 1.0


@dataclass(frozen=True, slots=True)
class Work:
    """What a contestant's process is told."""

    contestant: str
    model_folder: str
    """A Hugging Face folder: weights and tokenizer with a chat template."""
    prompts: tuple[str, ...]
    """Questions, which the chat template makes the only user turn."""
    completions: int
    new_tokens: int
    forced: bool
    threads: int
    seed: int

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


def from_json(text: str) -> Work:
    """The work that `to_json` wrote."""
    values: Mapping[str, Any] = json.loads(text)
    return Work(**{**values, "prompts": tuple(values["prompts"])})


def tasks_of_round(names: tuple[str, ...], number: int, questions: int) -> list[str]:
    """The tasks that a round asks: it goes on where the one before stopped."""
    first = number * questions
    return [names[(first + place) % len(names)] for place in range(questions)]


def questions_of_round(number: int, questions: int) -> tuple[str, ...]:
    """The texts of a round's questions. Loads reasoning-gym."""
    from swarmnode.tasks import LEVELS, Catalogue

    catalogue = Catalogue(bytes(32))
    asked: dict[str, int] = {}
    texts = []
    for task in tasks_of_round(tuple(LEVELS), number, questions):
        nth = asked[task] = asked.get(task, number) + 1
        drawn, _ = catalogue.draw(KEY, task, LEVEL, 0, nth)
        texts.append(drawn[-1].question.text)
    return tuple(texts)


def reward(place: int) -> float:
    """What the completion at this place of its group gets."""
    return float(place % 2)
