"""From texts to a prepared corpus: split, rid of repetitions, cut to rows, sharded.

Two passes over the sources, neither of which holds more than a text and a shard. The first sets
texts apart for validation: those whose SHA-256 says so, a twentieth, and takes an excerpt of each.
The second writes what is trained on: no text that the hash sets apart, none that came before, and
no row that has a window of 64 bytes in common with what is validated on. How far they are is told
to whoever listens (swarmnode.progress).
"""

from __future__ import annotations

import hashlib
import heapq
import json
import math
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from swarmnode.files import write_atomically
from swarmnode.pretraining.corpus import (
    END_ID,
    MANIFEST,
    DomainFacts,
    Rows,
    manifest_of,
    shard_name,
    text_of,
    tokens_of,
)
from swarmnode.pretraining.overlap import Hashes, copied, sorted_set, windows
from swarmnode.pretraining.sources import CorpusError, Source, files_of, texts_of, unreadable
from swarmnode.progress import advancing
from swarmnode.scheduling.mtld import mtld, words_of

_CODE_VERSION = 1
"""Raise it whenever the same sources would give another corpus."""
_ONE_OF = 20
"""One text of so many is set apart for validation."""
_SHARD_ROWS = 65_536
_PASSAGE_BYTES = 1024
"""MTLD is taken over at least so many bytes, some 150 words: below 50 it says little."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How texts become rows."""

    context: int
    validation_rows: int
    """Of each domain."""
    most_bytes: int
    """Of text that is trained on, of each domain; 0 for all."""


def prepared(sources: Sequence[Source], cut: Cut, cache: Path) -> Path:
    """The corpus of these sources, made unless the cache has it. Raises CorpusError, OSError."""
    folder = cache / _key(sources, cut)
    if not (folder / MANIFEST).exists():
        cache.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".making-", dir=cache))
        try:
            facts = _make(sources, cut, temporary)
            write_atomically(temporary / MANIFEST, manifest_of(facts))
            # Another process may have made the same one meanwhile.
            if not (folder / MANIFEST).exists():
                os.replace(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def set_apart(text: bytes) -> bool:
    """Whether a text belongs to validation, whatever domain it is in and wherever it comes."""
    return int.from_bytes(hashlib.sha256(text).digest()[:8]) % _ONE_OF == 0


def _key(sources: Sequence[Source], cut: Cut) -> str:
    """Of the files as they are by name, size and time, which spares reading them."""
    listed = [_as_it_is(source, file) for source in sources for file in files_of(source)]
    described = [_CODE_VERSION, cut.context, cut.validation_rows, cut.most_bytes, listed]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:32]


def _as_it_is(source: Source, file: Path) -> list[str | int]:
    found = _status(source, file)
    return [source.name, source.field, str(file), found.st_size, found.st_mtime_ns]


def _status(source: Source, file: Path) -> os.stat_result:
    try:
        return file.stat()
    except OSError as error:
        raise unreadable(source, file, error) from error


class _Pass:
    """One pass over the texts; `sizes` are bytes by source, as far as they are known before."""

    def __init__(self, what: str, sizes: Mapping[str, int]) -> None:
        self._what = what
        self._sizes = sizes
        self._whole = sum(sizes.values())
        self._begun = 0
        self._told = advancing()
        self.read: dict[str, int] = {}
        """Bytes of text so far, by source."""

    def texts_of(self, source: Source) -> Iterator[bytes]:
        """Every piece of text of one source, which may be left before its end."""
        before, size = self._begun, self._sizes[source.name]
        self._begun += size
        self.read[source.name] = 0
        for text in texts_of(source):
            data = text.encode()
            self.read[source.name] += len(data)
            done = before + min(self.read[source.name], size)
            self._told(self._what, done, self._whole)
            yield data


def _make(sources: Sequence[Source], cut: Cut, folder: Path) -> list[DomainFacts]:
    kept: list[int] = []
    known: list[Hashes] = []
    on_disk = {
        source.name: sum(_status(source, file).st_size for file in files_of(source))
        for source in sources
    }
    first = _Pass("setting texts apart for validation", on_disk)
    for source in sources:
        (folder / source.name).mkdir()
        rows = _validation(first.texts_of(source), source.name, cut, known)
        rows.tofile(folder / source.name / "validation.tokens")
        kept.append(len(rows))
    hashes = sorted_set(known)
    seen: set[bytes] = set()
    most = cut.most_bytes or max(first.read.values())
    second = _Pass("preparing texts", {name: min(most, size) for name, size in first.read.items()})
    return [
        _Training(source.name, second.texts_of(source), cut, folder / source.name).write(
            count, hashes, seen
        )
        for source, count in zip(sources, kept, strict=True)
    ]


def _validation(texts: Iterator[bytes], name: str, cut: Cut, known: list[Hashes]) -> Rows:
    """The rows that are validated on, about one of a text; their windows are added to `known`."""
    width = cut.context + 1
    chosen = _Chosen(width, cut.validation_rows)
    for text in texts:
        chosen.offer(text)
    excerpts = [tokens_of(data)[:width] for data in chosen.excerpts]
    flat = np.concatenate(excerpts or [tokens_of(b"")])
    if len(flat) < width:
        raise CorpusError(
            f"domain {name}: too little text: one of {_ONE_OF} pieces is set apart for"
            f" validation, and that came to {len(flat)} of the {width} bytes of one sequence; give"
            " it more text"
        )
    known += [windows(data) for data in chosen.excerpts]
    rows = min(cut.validation_rows, len(flat) // width)
    return flat[: rows * width].reshape(-1, width)


class _Chosen:
    """Excerpts of the set-apart texts with the lowest hashes, as many as the rows need.

    So they are from all over the domain, and the same whatever order its texts come in.
    """

    def __init__(self, width: int, rows: int) -> None:
        self._width = width
        self._wanted = width * rows
        self._held: list[tuple[int, bytes]] = []
        """A heap with the highest hash first."""
        self._digests: set[int] = set()
        self._size = 0

    def offer(self, text: bytes) -> None:
        """Take the text, or not."""
        digest = int.from_bytes(hashlib.sha256(text).digest())
        if not set_apart(text) or digest in self._digests:
            return
        if self._size >= self._wanted and digest > -self._held[0][0]:
            return
        start = digest % max(1, len(text) - self._width + 1)
        excerpt = text[start : start + self._width]
        heapq.heappush(self._held, (-digest, excerpt))
        self._digests.add(digest)
        self._size += self._tokens(excerpt)
        while self._size - self._tokens(self._held[0][1]) >= self._wanted:
            gone, dropped = heapq.heappop(self._held)
            self._digests.remove(-gone)
            self._size -= self._tokens(dropped)

    def _tokens(self, excerpt: bytes) -> int:
        """With the end of a text that is shorter than a row."""
        return min(len(excerpt) + 1, self._width)

    @property
    def excerpts(self) -> list[bytes]:
        """In the order of their hashes; each is a row's bytes, or a whole text of fewer."""
        return [excerpt for _, excerpt in sorted(self._held, reverse=True)]


class _Training:
    """The second pass over one domain."""

    def __init__(self, name: str, texts: Iterator[bytes], cut: Cut, folder: Path) -> None:
        self._name = name
        self._all_texts = texts
        self._cut = cut
        self._folder = folder
        self._width = cut.context + 1
        self._shards: list[int] = []
        self._texts = self._repeated = self._copied = self._bytes = 0

    def write(self, validation: int, known: Hashes, seen: set[bytes]) -> DomainFacts:
        """Write all shards. Raises CorpusError where nothing is left."""
        rows: list[Rows] = []
        diversity: list[NDArray[np.float32]] = []
        count = 0
        for passage, mtld_of_it in self._passages(known, seen):
            rows.append(passage)
            diversity.append(np.full(len(passage), mtld_of_it, dtype="<f4"))
            count += len(passage)
            if count >= _SHARD_ROWS:
                self._shard(rows, diversity)
                rows, diversity, count = [], [], 0
        if rows:
            self._shard(rows, diversity)
        if not self._shards:
            raise CorpusError(
                f"domain {self._name}: nothing is left to train on after what repeats, or is"
                " validated on, was left out; give it more text"
            )
        return DomainFacts(
            name=self._name,
            shards=self._shards,
            validation=validation,
            bytes=self._bytes,
            texts=self._texts,
            repeated=self._repeated,
            copied=self._copied,
        )

    def _shard(self, rows: list[Rows], diversity: list[NDArray[np.float32]]) -> None:
        path = self._folder / shard_name(len(self._shards))
        whole = np.concatenate(rows)
        whole.tofile(path.with_suffix(".tokens"))
        np.concatenate(diversity).tofile(path.with_suffix(".diversity"))
        self._shards.append(len(whole))

    def _passages(self, known: Hashes, seen: set[bytes]) -> Iterator[tuple[Rows, float]]:
        """Rows that follow one another, with the MTLD of what they say together."""
        at_once = math.ceil(_PASSAGE_BYTES / self._width)
        kept = np.empty((0, self._width), dtype="<u2")
        for rows in self._rows(known, seen):
            kept = np.concatenate((kept, rows))
            while len(kept) >= at_once:
                passage, kept = kept[:at_once], kept[at_once:]
                yield passage, mtld(words_of(text_of(passage)))
        if len(kept):
            yield kept, mtld(words_of(text_of(kept)))

    def _rows(self, known: Hashes, seen: set[bytes]) -> Iterator[Rows]:
        """Clean rows, in order; texts follow one another within a row."""
        tokens = np.empty(0, dtype="<u2")
        marks = np.empty(0, dtype=bool)
        for data in self._texts_to_train_on(seen):
            tokens = np.concatenate((tokens, tokens_of(data)))
            marks = np.concatenate((marks, copied(data, known), [False]))
            whole = len(tokens) // self._width
            end = whole * self._width
            dirty = marks[:end].reshape(whole, self._width).any(axis=1)
            clean = tokens[:end].reshape(whole, self._width)[~dirty]
            tokens, marks = tokens[end:], marks[end:]
            self._copied += int(dirty.sum())
            if len(clean):
                self._bytes += int((clean != END_ID).sum())
                yield clean

    def _texts_to_train_on(self, seen: set[bytes]) -> Iterator[bytes]:
        for data in self._all_texts:
            self._texts += 1
            digest = hashlib.sha256(data).digest()[:16]
            if digest in seen:
                self._repeated += 1
            elif not set_apart(data):
                if self._cut.most_bytes and self._bytes >= self._cut.most_bytes:
                    self._texts -= 1
                    return
                seen.add(digest)
                yield data
