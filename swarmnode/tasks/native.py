"""reasoning-gym's other tasks, made and scored by reasoning-gym itself at level `default`.

Scorers run in the scorer process's sandbox, on a copy of the entry made for the call, so that a
scorer which changes its entry does no harm. Entries are kept for a while: some take a tenth of a
second to make, and a group has many completions. Knows no levels of ours.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from swarmnode.tasks.drafts import Draft
from swarmnode.tasks.errors import RefusedTask
from swarmnode.tasks.other_tasks import DEFAULT, ENABLED
from swarmnode.tasks.reasoning_gym_source import (
    GENERATION_ERRORS,
    create_dataset,
    plain_surroundings,
)

SCORED_CHARACTERS = 4096
"""A longer answer scores 0."""

CACHED_DATASETS = 64
CACHED_ENTRIES = 256
RIGHT = 0.99


@dataclass(frozen=True, slots=True)
class NativeSource:
    """The source of a task at level default."""

    task: str

    def draft(self, seed: int, index: int) -> Draft | None:
        """See DraftSource; None unless reasoning-gym pays its own reference answer in full."""
        with plain_surroundings():
            try:
                entry = _entry(self.task, seed, index)
            except GENERATION_ERRORS:
                return None
            answer = entry["answer"]
            if not isinstance(answer, str) or _score(self.task, seed, index, answer) < RIGHT:
                return None
        return Draft(entry["question"], answer, {})


def score(task: str, level: str, seed: int, index: int, text: str) -> float:
    """reasoning-gym's score in [0, 1] of an answer; 0 where its scorer fails or gives no number.

    Raises RefusedTask unless the task is enabled at level default.
    """
    if task not in ENABLED or level != DEFAULT:
        raise RefusedTask(f"{task}:{level} is not scored by reasoning-gym; use our verifier")
    answer = text.strip()
    if len(answer) > SCORED_CHARACTERS:
        return 0.0
    with plain_surroundings():
        return _score(task, seed, index, answer)


def _score(task: str, seed: int, index: int, answer: str) -> float:
    entry = copy.deepcopy(_entry(task, seed, index))
    try:
        value = float(_dataset(task, seed).score_answer(answer, entry))
    except Exception:
        # Foreign scorers raise whatever a hostile text provokes; all of it means "not solved".
        return 0.0
    return min(1.0, max(0.0, value)) if math.isfinite(value) else 0.0


@lru_cache(CACHED_ENTRIES)
def _entry(task: str, seed: int, index: int) -> Any:
    return _dataset(task, seed)[index]


@lru_cache(CACHED_DATASETS)
def _dataset(task: str, seed: int) -> Any:
    return create_dataset(task, seed)
