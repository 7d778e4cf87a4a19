"""The phrase tokenizer of `tiny`: greedy longest match over a committed vocabulary.

Lossless on any Unicode text: what no token covers is written as UTF-8 bytes, one token each.
Identifiers 0 to 2 are the special tokens, which no text encodes to; 3 to 258 are the bytes; then
come the text tokens in the order of vocabulary.json. It knows nothing of models or tasks.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from importlib import resources

PAD_ID = 0
"""Fills rows to a common length."""
END_ID = 1
"""Ends a completion."""
ANSWER_ID = 2
"""Stands between a prompt and its completion."""

_FIRST_BYTE_ID = 3
_FIRST_TEXT_ID = _FIRST_BYTE_ID + 256
_FORMAT = b"swarmnode phrase tokenizer 1"


class PhraseTokenizer:
    """Text to token ids and back; time is linear in the length of the text."""

    def __init__(self, tokens: Sequence[str]) -> None:
        """Take the text tokens in the order of their ids, distinct and not empty."""
        if len(set(tokens)) != len(tokens) or "" in tokens:
            raise ValueError("the text tokens of a vocabulary must be distinct and not empty")
        self._ids = {token: _FIRST_TEXT_ID + index for index, token in enumerate(tokens)}
        self._bytes = [b""] * _FIRST_BYTE_ID + [bytes([value]) for value in range(256)]
        self._bytes += [token.encode() for token in tokens]
        longest_first = sorted(tokens, key=len, reverse=True)
        self._matcher = re.compile("|".join([*map(re.escape, longest_first), "."]), re.DOTALL)

    @classmethod
    def load(cls) -> PhraseTokenizer:
        """Load the vocabulary that comes with the package."""
        text = resources.files(__package__).joinpath("vocabulary.json").read_text("utf-8")
        return cls(json.loads(text)["tokens"])

    def __len__(self) -> int:
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the longest matches from left to right, never a special token's.

        A lone surrogate, which is no Unicode text, is read as U+FFFD.
        """
        ids: list[int] = []
        for match in self._matcher.findall(text):
            known = self._ids.get(match)
            if known is not None:
                ids.append(known)
            else:
                encoded = match.encode("utf-8", "surrogatepass")
                if "\ud800" <= match <= "\udfff":
                    encoded = "\ufffd".encode()
                ids.extend(_FIRST_BYTE_ID + value for value in encoded)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ids; special tokens are left out, invalid UTF-8 becomes U+FFFD."""
        return b"".join([self._bytes[token] for token in ids]).decode("utf-8", "replace")

    def pieces(self) -> Sequence[bytes]:
        """Return the bytes of every token after the special ones: the 256 bytes, the texts."""
        return self._bytes[_FIRST_BYTE_ID:]

    def fingerprint(self) -> bytes:
        """Return 32 bytes that change with the format, the special tokens or the vocabulary."""
        digest = hashlib.sha256(_FORMAT)
        for value in self._bytes:
            digest.update(len(value).to_bytes(4, "big") + value)
        return digest.digest()
