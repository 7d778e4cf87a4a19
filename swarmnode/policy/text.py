"""Between text and a model's token ids: what every model brings of its own, and `tiny`'s form.

A codec knows how its model wants to be asked and how it ends an answer; it knows no weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from swarmnode.policy.fast_phrases import fast_tokenizer
from swarmnode.policy.tokenizer import ANSWER_ID, END_ID, PhraseTokenizer
from swarmnode.types import FinishReason

Examples = Sequence[tuple[str, str]]
"""Questions with their right answers, as they come before a question in a prompt."""


class TextCodec(Protocol):
    """One model's way from text to token ids and back."""

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The tokens that end a completion, the one that we append first; at least one."""

    @property
    def vocabulary_size(self) -> int:
        """Every id that the codec gives out is smaller."""

    def encode_prompt(self, text: str, examples: Examples = ()) -> list[int]:
        """Return the ids that a completion continues; never empty."""

    def encode_completion(self, text: str, finish_reason: FinishReason) -> list[int]:
        """Return the ids of an answer, with the end token if it stopped by itself.

        What looks like a special token in the text is encoded as text.
        """

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of a completion's ids; special tokens are left out."""

    def fingerprint(self) -> bytes:
        """Return 32 bytes that change with anything that changes ids or their meaning."""

    def save(self, folder: Path) -> None:
        """Write the tokenizer with its template as AutoTokenizer reads it. Raises OSError."""


class PhraseCodec:
    """The phrase tokenizer's form: the question, the answer token, the answer, the end token."""

    def __init__(self, tokenizer: PhraseTokenizer) -> None:
        self._tokenizer = tokenizer

    @property
    def end_ids(self) -> tuple[int, ...]:
        """The end token alone."""
        return (END_ID,)

    @property
    def vocabulary_size(self) -> int:
        """The ids of the tokenizer."""
        return len(self._tokenizer)

    def encode_prompt(self, text: str, examples: Examples = ()) -> list[int]:
        """Return the ids that a completion continues; examples have no place in this form."""
        return [*self._tokenizer.encode(text), ANSWER_ID]

    def encode_completion(self, text: str, finish_reason: FinishReason) -> list[int]:
        """Return the ids of an answer; no text encodes to a special token."""
        ids = self._tokenizer.encode(text)
        return [*ids, END_ID] if finish_reason == "stop" else ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text without the special tokens."""
        return self._tokenizer.decode(ids)

    def fingerprint(self) -> bytes:
        """Return the tokenizer's fingerprint."""
        return self._tokenizer.fingerprint()

    def save(self, folder: Path) -> None:
        """Write it in the form that everybody can load."""
        fast_tokenizer(self._tokenizer).save_pretrained(folder)
