"""Make the phrase vocabulary of `tiny` from sample texts.

`python -m swarmnode.policy.build_vocabulary` reads JSON lines `[origin, question, answer]` from
standard input and writes vocabulary.json to standard output. An origin is whatever shares its
templates, such as a task's level. It does not know tasks.

Two neighbouring pieces fuse into a phrase when one of them (one that never occurs in an answer)
hardly ever occurs without the other in its origin, so that template sentences become single tokens
while all that answers are made of stays in small pieces; a digit only fuses with a long phrase.
Every character that was seen stays a token of its own, and 256 byte tokens stand for the rest.

The committed vocabulary.json was made by

    python -c '
    import json
    from swarmnode.tasks import Catalogue
    from swarmnode.tasks.levels import LEVELS
    for task in sorted(LEVELS):
        for level in ("easy", "paper"):
            for pair in Catalogue(bytes(32)).warm_start_pairs(task, level, 0, 500):
                print(json.dumps([task + level, *pair]))
    ' | python -m swarmnode.policy.build_vocabulary > swarmnode/policy/vocabulary.json
"""

from __future__ import annotations

import itertools
import json
import re
import string
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

_PIECE = re.compile(r" ?[A-Za-z]+|(?<=\d) \d|\d| ?[^\w\s] ?|\s|.", re.DOTALL)
_FUSE_SHARE = 0.97
_MINIMUM_COUNT = 20
_PHRASE_CHARACTERS = 16

_Fusion = tuple[str, str]


def build_vocabulary(samples: Iterable[tuple[str, str, str]]) -> list[str]:
    """Return the text tokens, sorted, for (origin, question, answer); the same in any order."""
    questions: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    answers: Counter[str] = Counter()
    characters = set(string.printable) - set("\x0b\x0c\r\t")
    for origin, question, answer in samples:
        questions[origin][tuple(_PIECE.findall(question))] += 1
        answers.update(_PIECE.findall(answer))
        characters.update(question, answer)
    answer_pieces = {piece for piece, count in answers.items() if count >= _MINIMUM_COUNT}
    counted: Counter[str] = Counter()
    for texts in questions.values():
        for pieces, count in _fuse(texts, answer_pieces).items():
            for piece in pieces:
                counted[piece] += count
    frequent = {piece for piece, count in counted.items() if count >= _MINIMUM_COUNT}
    spaced_digits = {f" {digit}" for digit in string.digits}
    return sorted(frequent | answer_pieces | characters | spaced_digits)


def _fuse(texts: Counter[tuple[str, ...]], answer_pieces: set[str]) -> Counter[tuple[str, ...]]:
    """Fuse neighbouring pieces until no pair hardly ever occurs apart."""
    while True:
        singles: Counter[str] = Counter()
        pairs: Counter[_Fusion] = Counter()
        for pieces, count in texts.items():
            for piece in pieces:
                singles[piece] += count
            for pair in itertools.pairwise(pieces):
                pairs[pair] += count
        fusions = _independent_fusions(singles, pairs, answer_pieces)
        if not fusions:
            return texts
        fused: Counter[tuple[str, ...]] = Counter()
        for pieces, count in texts.items():
            fused[_apply(pieces, fusions)] += count
        texts = fused


def _independent_fusions(
    singles: Counter[str], pairs: Counter[_Fusion], answer_pieces: set[str]
) -> set[_Fusion]:
    """Choose the fusions of one pass: the commonest first, none sharing a piece with another."""
    chosen: set[_Fusion] = set()
    taken: set[str] = set()
    for pair, count in sorted(pairs.items(), key=lambda item: (-item[1], item[0])):
        if count < _MINIMUM_COUNT:
            break
        if taken.intersection(pair) or not _may_fuse(*pair):
            continue
        if any(
            piece not in answer_pieces and count >= _FUSE_SHARE * singles[piece] for piece in pair
        ):
            chosen.add(pair)
            taken.update(pair)
    return chosen


def _may_fuse(left: str, right: str) -> bool:
    """Keep digits apart from all but long phrases, which are templates and no data."""
    with_digit = any(piece.strip().isdigit() for piece in (left, right))
    return not with_digit or max(len(left), len(right)) >= _PHRASE_CHARACTERS


def _apply(pieces: Sequence[str], fusions: set[_Fusion]) -> tuple[str, ...]:
    result: list[str] = []
    for piece in pieces:
        if result and (result[-1], piece) in fusions:
            result[-1] += piece
        else:
            result.append(piece)
    return tuple(result)


def main() -> None:
    """Read pairs from standard input, write the vocabulary file to standard output."""
    samples = [tuple(json.loads(line)) for line in sys.stdin if line.strip()]
    document = {"tokens": build_vocabulary(samples)}
    json.dump(document, sys.stdout, ensure_ascii=False, indent=0)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
