"""The texts of a domain, one after the other: the edge where files are read.

Nothing is kept: a source may be larger than memory. Files come in the order of their names, so that
equal folders give equal texts. What is longer than a piece is cut at line ends, since a whole book
could be on one side of a split only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PIECE = 8192
"""Characters of a piece at most, unless a line is longer."""
_PASSED_OVER = "."
"""Names that begin with it are passed over."""


class CorpusError(Exception):
    """Texts that can't be trained on; the text is one line for the user."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the texts of a domain are."""

    name: str
    path: Path
    field: str
    """The key of the text in JSON lines."""


def files_of(source: Source) -> list[Path]:
    """Every file of a source, sorted. Raises CorpusError where there is none."""
    if source.path.is_file():
        return [source.path]
    found = [
        Path(folder, name)
        for folder, folders, names in os.walk(source.path)
        for name in names
        if not name.startswith(_PASSED_OVER) and _keep_visible(folders)
    ]
    if not found:
        if source.path.is_dir():
            raise CorpusError(
                f"domain {source.name}: {source.path} holds no files; put texts there"
            )
        raise CorpusError(f"domain {source.name}: {source.path} is not there; correct its path")
    return sorted(found)


def unreadable(source: Source, file: Path, error: OSError) -> CorpusError:
    """What is raised where a file is listed and can't be read."""
    return CorpusError(
        f"domain {source.name}: {file} cannot be read: {error.strerror}; correct its path"
    )


def _keep_visible(folders: list[str]) -> bool:
    """Take hidden folders out of the walk; always true."""
    folders[:] = [name for name in folders if not name.startswith(_PASSED_OVER)]
    return True


def texts_of(source: Source) -> Iterator[str]:
    """Every piece of text; files that are not UTF-8 are passed over. Raises CorpusError."""
    for file in files_of(source):
        try:
            lines = file.suffix == ".jsonl"
            texts = _of_lines(source, file) if lines else [file.read_text(encoding="utf-8")]
            for text in texts:
                yield from pieces(text)
        except UnicodeDecodeError:
            continue
        except OSError as error:
            raise unreadable(source, file, error) from error


def pieces(text: str) -> Iterator[str]:
    """The text, cut at line ends to pieces of at most PIECE characters; blank ones are left out."""
    kept: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        if size + len(line) > PIECE and kept:
            yield from _unless_blank("".join(kept))
            kept, size = [], 0
        kept.append(line)
        size += len(line)
    yield from _unless_blank("".join(kept))


def _unless_blank(text: str) -> Iterator[str]:
    if text.strip():
        yield text


def _of_lines(source: Source, file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8") as opened:
        for number, line in enumerate(opened, 1):
            if not line.strip():
                continue
            try:
                text = json.loads(line)[source.field]
            except (ValueError, KeyError, TypeError, RecursionError):
                text = None
            if not isinstance(text, str):
                raise CorpusError(
                    f"domain {source.name}: line {number} of {file} is no JSON object with a text "
                    f"under {source.field!r}; correct it, or name the key in `field`"
                )
            yield text
