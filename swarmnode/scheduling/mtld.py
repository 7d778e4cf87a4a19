"""MTLD, the measure of textual lexical diversity (McCarthy and Jarvis 2010). Pure.

Words are scanned until their type-token ratio falls to 0.72, which completes a factor, and the
scan starts anew; what is left over counts as (1 - ratio) / (1 - 0.72) of a factor. MTLD is words
per factor, the mean of a scan forwards and one backwards. A ratio equal to 0.72 completes a factor
(libraries differ); where no word repeats there is no factor, and the number of words is returned.

It is about words: texts are lowered and cut at whatever is neither letter nor digit. Below some
50 words it says little. A pure function of the text, so that pre-training computes it once for
each chunk and keeps it beside the chunk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

FACTOR_RATIO = 0.72

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def words_of(text: str) -> list[str]:
    """Lower-case words; an apostrophe within one belongs to it."""
    return _WORD.findall(text.lower())


def mtld(words: Sequence[str]) -> float:
    """Words per factor: at least 1 for any words, 0.0 for none."""
    return (_scan(words, len(words)) + _scan(reversed(words), len(words))) / 2.0


def _scan(words: Iterable[str], count: int) -> float:
    factors = 0.0
    types: set[str] = set()
    tokens = 0
    for word in words:
        tokens += 1
        types.add(word)
        if len(types) / tokens <= FACTOR_RATIO:
            factors += 1.0
            types.clear()
            tokens = 0
    if tokens:
        factors += (1.0 - len(types) / tokens) / (1.0 - FACTOR_RATIO)
    return count / factors if factors else float(count)


def relative(value: float, limit: float) -> float:
    """(MTLD - 2) / (limit - 2), cut to [0, 1]: 2 is a single repeated word (HDS's MTLD_norm)."""
    return min(1.0, max(0.0, (value - 2.0) / (limit - 2.0)))
