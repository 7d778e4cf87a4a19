"""The lines of docs/errors.md as patterns, and whether a text is one of them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parent.parent / "docs" / "errors.md"
GAP: Final = "…"
"""What stands for a value."""
CODES: Final = "Exit codes"
"""The section that has no lines."""


USAGE: Final = 2
"""The exit code of a line that has none behind it."""


def lines() -> list[str]:
    """Every pattern in the first cells of the page's tables, once each, in order."""
    return list(codes())


@cache
def codes() -> Mapping[str, frozenset[int]]:
    """The exit codes that the page has for each line; what several rows have is put together."""
    found: defaultdict[str, set[int]] = defaultdict(set)
    for line, code in _lines():
        found[line] |= code
    return {line: frozenset(code) for line, code in found.items()}


def _lines() -> Iterator[tuple[str, set[int]]]:
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        for row in section.splitlines():
            if row.startswith("| `") and not section.startswith(CODES):
                cell = row.strip("|").split(" | ")[0].strip()
                whole = _codes_at_the_end(cell)
                for line, behind in re.findall(r"`([^`]+)`((?: \([\d, ]+\))?)", cell):
                    yield line, _codes_at_the_end(behind) or whole or {USAGE}


def _codes_at_the_end(text: str) -> set[int]:
    last = re.search(r"\(([\d, ]+)\)$", text)
    return set(map(int, last[1].split(", "))) if last else set()


@cache
def _pattern(line: str) -> re.Pattern[str]:
    words = [re.escape(part.strip()) for part in line.split(GAP)]
    begins = r"(?:^|[:;,] )" if words[0] else ""
    ends = r"(?!\w)" if words[-1] else ""
    return re.compile(begins + ".*".join(words) + ends, re.DOTALL)


def fits(line: str, text: str) -> bool:
    """Whether the text has all words of a line of the page, in order; a gap may be anything.

    What has no gap before it begins the text, or follows what names the program, a file or a
    setting.
    """
    return _pattern(line).search(text) is not None
