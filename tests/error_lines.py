"""The lines of docs/errors.md as patterns, and whether a text is one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parent.parent / "docs" / "errors.md"
GAP: Final = "…"
"""What stands for a value."""
CODES: Final = "Exit codes"
"""The section that has no lines."""


def lines() -> list[str]:
    """Every pattern in the first cells of the page's tables, once each, in order."""
    return list(dict.fromkeys(_lines()))


def _lines() -> Iterator[str]:
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        for row in section.splitlines():
            if row.startswith("| `") and not section.startswith(CODES):
                yield from re.findall("`([^`]+)`", row.strip("|").split(" | ")[0])


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
