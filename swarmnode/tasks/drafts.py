"""What a level makes before it becomes a question: text, reference answer and metadata.

Knows no reasoning-gym, no streams and no keys. Invariant: a source is a pure function of
(seed, index), the same in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Draft:
    """One question as its level's source makes it."""

    text: str
    answer: str
    metadata: Mapping[str, object]
    """Strings, ints and lists of them; swarmnode/tasks/levels.py lists the keys of each task."""


class DraftSource(Protocol):
    """Makes the questions of one level."""

    def draft(self, seed: int, index: int) -> Draft | None:
        """The question at `index` of the stream with `seed`; None where none can be scored."""
