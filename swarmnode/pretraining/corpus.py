"""A prepared corpus on disk: every domain's sequences in shards, and what is validated on.

    FOLDER/corpus.json                      the manifest, written last
    FOLDER/NAME/train-00000.tokens          rows of context + 1 tokens, little-endian 16 bit
    FOLDER/NAME/train-00000.diversity       the MTLD of each row's surroundings, float32
    FOLDER/NAME/validation.tokens

Tokens are bytes, and END_ID between texts. Shards are mapped into memory, never read as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from swarmnode.pretraining.sources import CorpusError

END_ID = 256
"""Stands between texts."""
VOCABULARY = 257

Rows = NDArray[np.uint16]
"""(rows, context + 1)."""

MANIFEST = "corpus.json"
_TOKEN = np.dtype("<u2")
_DIVERSITY = np.dtype("<f4")


@dataclass(frozen=True, slots=True)
class DomainFacts:
    """What became of a domain's texts."""

    name: str
    shards: Sequence[int]
    """Rows of each shard that is trained on."""
    validation: int
    """Rows that are validated on."""
    bytes: int
    """Of the texts that are trained on."""
    texts: int
    """Pieces of text that were read."""
    repeated: int
    """Of these, left out because the same text came before, in any domain."""
    copied: int
    """Rows left out because they share a window with what is validated on."""

    @property
    def rows(self) -> int:
        """Rows that are trained on."""
        return sum(self.shards)


class Domain:
    """One domain of a prepared corpus."""

    def __init__(self, folder: Path, facts: DomainFacts, context: int) -> None:
        self.facts = facts
        self._ends = list(accumulate(facts.shards))
        width = context + 1
        names = [shard_name(number) for number in range(len(facts.shards))]
        self._tokens = [
            np.memmap(folder / f"{name}.tokens", _TOKEN, "r", shape=(rows, width))
            for name, rows in zip(names, facts.shards, strict=True)
        ]
        self._diversity = [
            np.memmap(folder / f"{name}.diversity", _DIVERSITY, "r", shape=(rows,))
            for name, rows in zip(names, facts.shards, strict=True)
        ]
        self.validation: Rows = np.fromfile(folder / "validation.tokens", _TOKEN).reshape(-1, width)

    def take(self, places: Sequence[int]) -> tuple[Rows, float | None]:
        """The rows at these places, and their mean MTLD; None where there are no rows."""
        found = [self._at(place) for place in places]
        rows = np.stack([self._tokens[shard][row] for shard, row in found])
        return rows, float(np.mean([self._diversity[shard][row] for shard, row in found]))

    def _at(self, place: int) -> tuple[int, int]:
        shard = int(np.searchsorted(self._ends, place, side="right"))
        return shard, place - (self._ends[shard - 1] if shard else 0)


def shard_name(number: int) -> str:
    """Without the kind of file."""
    return f"train-{number:05}"


def open_corpus(folder: Path, context: int) -> list[Domain]:
    """The domains of a prepared corpus. Raises CorpusError where it is damaged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return [
            Domain(folder / each["name"], DomainFacts(**each), context)
            for each in manifest["domains"]
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(
            f"the prepared corpus {folder} is damaged; delete that folder, it is made anew"
        ) from error


def manifest_of(facts: Sequence[DomainFacts]) -> str:
    """The text of the manifest."""
    return json.dumps({"domains": [asdict(each) for each in facts]}, indent=1) + "\n"


def tokens_of(text: bytes) -> Rows:
    """Bytes as tokens, with END_ID behind them: (length + 1,)."""
    tokens = np.empty(len(text) + 1, dtype=_TOKEN)
    tokens[:-1] = np.frombuffer(text, dtype=np.uint8)
    tokens[-1] = END_ID
    return tokens


def text_of(rows: Rows) -> str:
    """What rows say, one after the other; broken characters at their ends are left out."""
    flat = rows.reshape(-1)
    data: bytes = flat[flat != END_ID].astype(np.uint8).tobytes()
    return data.decode("utf-8", errors="ignore")


def facts_of(domains: Sequence[Domain]) -> Iterator[Mapping[str, Any]]:
    """For the report: each domain's facts, plain."""
    for domain in domains:
        yield {**asdict(domain.facts), "rows": domain.facts.rows}
