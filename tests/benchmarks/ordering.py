"""A task for studies of a few seconds: write the given words in alphabetical order.

Small policies learn it within seconds and not at once, and its answers have as many words as one
likes. A warm start on answers with mistakes gives a policy something that training on rewards can
mend. Questions follow from a random seed; a tenth of them, by the hash of their text, is held out.
Knows texts alone, no model.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

TASK, LEVEL = "ordering", "study"
HELD_OUT_SEED = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its words in order."""

    text: str
    words: tuple[str, ...]

    @property
    def answer(self) -> str:
        """The right answer."""
        return " ".join(self.words)

    @property
    def held_out(self) -> bool:
        """Whether it is kept for evaluation, as swarmnode's own rule has it."""
        digest = hashlib.sha256(f"{TASK}\n{self.text}".encode()).digest()
        return int.from_bytes(digest[:8], "big") % 10 == 0


@dataclass(frozen=True, slots=True)
class Ordering:
    """Questions of `length` words out of `vocabulary`, in which a word may come more than once."""

    vocabulary: tuple[str, ...]
    length: int

    def stream(self, rng: random.Random, *, held_out: bool = False) -> Iterator[Asked]:
        """Questions without end, of one of the two kinds."""
        while True:
            words = rng.choices(self.vocabulary, k=self.length)
            asked = Asked(" ".join(words), tuple(sorted(words)))
            if asked.held_out == held_out:
                yield asked

    def examination(self, count: int) -> Sequence[Asked]:
        """Held-out questions, the same in every run."""
        return list(islice(self.stream(random.Random(HELD_OUT_SEED), held_out=True), count))

    def mistaken(self, asked: Asked, share: float, rng: random.Random) -> tuple[str, ...]:
        """The right words, each replaced by any other with that chance."""
        return tuple(
            rng.choice(self.vocabulary) if rng.random() < share else word for word in asked.words
        )


def right_words(asked: Asked, words: Sequence[str]) -> int:
    """How many words stand where they should."""
    return sum(one == other for one, other in zip(words, asked.words, strict=False))


def without_spaces(text: str) -> str:
    """What a verifier that ignores whitespace compares."""
    return "".join(text.split())
