"""A task: some letters are to be written in the order of the alphabet."""

from __future__ import annotations

import random
import string
from collections.abc import Mapping

from swarmnode.tasks import Draft

LETTERS = {"short": 4, "long": 9}
"""Letters of a question, by level. Four of 26 are 358,800 questions: a level needs a thousand."""


class LetterOrder:
    """Asks for the letters of a question in the order of the alphabet."""

    levels = tuple(LETTERS)

    def draft(self, level: str, seed: int, index: int) -> Draft | None:
        """The question at `index` of a stream: it depends on these three alone, on any machine."""
        # A text as seed is hashed by the generator itself; hash() differs between processes.
        chance = random.Random(f"{level} {seed} {index}")
        letters = chance.sample(string.ascii_lowercase, LETTERS[level])
        if letters == sorted(letters):
            return None  # copying the question would be right
        text = f"Write these letters in the order of the alphabet: {' '.join(letters)}"
        return Draft(text, " ".join(sorted(letters)), {})

    def verify(self, given: str, answer: str, metadata: Mapping[str, object]) -> float:
        """1 for the letters in order, with spaces or commas between them or nothing."""
        # Only the text's own characters are compared: nothing is parsed, and nothing takes long.
        return float(given.lower().replace(",", "").replace(" ", "") == answer.replace(" ", ""))
