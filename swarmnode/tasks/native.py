"""reasoning-gym's other tasks, made by reasoning-gym at level `default` and verified by us.

Of an entry nothing is kept but the texts and, where a puzzle has several right answers, the data
that its verifier in swarmnode/rewards/puzzles.py plays an answer through. reasoning-gym's scorer
sees its own reference answer alone, never a peer's text: where it does not pay that in full, the
index has no question. Knows no levels of ours.

Metadata contract:

| task                  | metadata                                                               |
|-----------------------|------------------------------------------------------------------------|
| cryptarithm           | words: list[str], the summands; result: str, in capital letters        |
| jugs                  | capacities: list[int]; target: int                                     |
| kakurasu              | row_sums, column_sums: list[int]                                       |
| palindrome_generation | letters: list[str]                                                     |
| shortest_path         | matrix: list[list[str]], cells * # O X                                 |
| tower_of_hanoi        | disks, pegs, start, goal: int; pegs are numbered from 1                |
| any other             | none                                                                   |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from swarmnode.tasks.drafts import Draft
from swarmnode.tasks.reasoning_gym_source import (
    GENERATION_ERRORS,
    create_dataset,
    plain_surroundings,
)

CACHED_DATASETS = 64
RIGHT = 0.99
ANSWER_BYTES = 4096
"""No verifier reads a longer answer, so that no question may have one."""

_Kept = Callable[[Mapping[str, Any]], Mapping[str, object]]
KEPT: Mapping[str, _Kept] = MappingProxyType(
    {
        "cryptarithm": lambda theirs: {
            "words": theirs["words_letters"],
            "result": theirs["result_letters"],
        },
        "jugs": lambda theirs: {
            "capacities": theirs["puzzle"]["jug_capacities"],
            "target": theirs["puzzle"]["target"],
        },
        "kakurasu": lambda theirs: {
            "row_sums": theirs["row_sums"],
            "column_sums": theirs["col_sums"],
        },
        "palindrome_generation": lambda theirs: {"letters": theirs["letters"]},
        "shortest_path": lambda theirs: {"matrix": theirs["matrix"]},
        "tower_of_hanoi": lambda theirs: {
            "disks": theirs["num_disks"],
            "pegs": theirs["num_pegs"],
            "start": theirs["start_peg"],
            "goal": theirs["target_peg"],
        },
    }
)
"""What a verifier needs of reasoning-gym's metadata."""


@dataclass(frozen=True, slots=True)
class NativeSource:
    """The source of a task at level default."""

    task: str

    def draft(self, seed: int, index: int) -> Draft | None:
        """See DraftSource; None unless reasoning-gym pays its own reference answer in full."""
        with plain_surroundings():
            dataset = _dataset(self.task, seed)
            try:
                entry = dataset[index]
            except RecursionError:
                raise  # it depends on the process, not on the index
            except (*GENERATION_ERRORS, RuntimeError):
                return None
            text, answer = entry["question"], entry["answer"]
            metadata = KEPT[self.task](entry["metadata"]) if self.task in KEPT else {}
            if not isinstance(answer, str) or len(answer.encode()) > ANSWER_BYTES:
                return None
            # Last, since some scorers change the entry.
            if not _pays(dataset, entry):
                return None
        return Draft(text, answer, metadata)


def _pays(dataset: Any, entry: Any) -> bool:
    try:
        return bool(dataset.score_answer(entry["answer"].strip(), entry) >= RIGHT)
    except Exception:
        # Whatever a foreign scorer raises at its own answer: there is no question to be asked.
        return False


@lru_cache(CACHED_DATASETS)
def _dataset(task: str, seed: int) -> Any:
    return create_dataset(task, seed)
