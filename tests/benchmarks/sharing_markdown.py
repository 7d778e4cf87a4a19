"""Markdown of the study's page: marked blocks, tables, code spans, and how numbers are written.

Pure text; knows nothing of arms or rows. A block stands between two lines of their own,
`<!-- sharing:NAME -->` and `<!-- /sharing:NAME -->`, so that no cell of a table can be taken for a
marker; another study's blocks have another word than sharing. What is not finite is written as
UNKNOWN.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

UNKNOWN = "–"
MINUS = "−"
LONGEST_ANSWER = 60


def fill(page_text: str, blocks: Mapping[str, str], study: str = "sharing") -> str:
    """The page with every block replaced; what stands outside the markers stays as it is.

    ValueError naming the block that the page lacks, holds twice, doesn't close or nobody makes.
    """
    marker_line = re.compile(rf"^<!-- (/?){re.escape(study)}:(.+?) -->$", re.MULTILINE)
    found = list(marker_line.finditer(page_text))
    for name, count in Counter(marker[2] for marker in found if not marker[1]).items():
        if count > 1:
            raise ValueError(f"the page holds block {name!r} {count} times")
        if name not in blocks:
            raise ValueError(f"the page has an unknown block {name!r}")
    parts, place = [], 0
    unused = dict(blocks)
    for opening, closing in zip_longest(found[::2], found[1::2]):
        name = opening[2]
        if opening[1]:
            raise ValueError(f"the page closes block {name!r} that is not open")
        if closing is None or (closing[1], closing[2]) != ("/", name):
            before = f" before {closing[0]}" if closing else ""
            raise ValueError(f"block {name!r} is not closed{before}")
        parts += [page_text[place : opening.end()], f"\n\n{unused.pop(name).strip()}\n\n"]
        place = closing.start()
    if unused:
        raise ValueError(f"the page lacks the markers of block {', '.join(map(repr, unused))}")
    return "".join(parts) + page_text[place:]


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of cells that are Markdown already; ValueError for a line of another width."""
    if any(len(line) != len(head) for line in lines):
        raise ValueError(f"a line has not the {len(head)} cells of {list(head)}")
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *lines])


def code(text: str) -> str:
    """Any text as one code span that may stand in a table: one line, at most LONGEST_ANSWER long.

    Line ends, tabs and other control characters are shown as escapes, spaces at the ends as ␣.
    """
    shown = "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
    if not shown:
        return "(empty)"
    inner = shown.strip(" ")
    before = len(shown) - len(shown.lstrip(" "))
    shown = "␣" * before + inner + "␣" * (len(shown) - before - len(inner))
    if len(shown) > LONGEST_ANSWER:
        shown = f"{shown[: LONGEST_ANSWER - 1]}…"
    # A fence longer than any run of backticks inside; the spaces keep it apart from them.
    longest = max(map(len, re.findall("`+", shown)), default=0)
    space = " " if longest else ""
    fence = "`" * (longest + 1)
    return f"{fence}{space}{shown.replace('|', chr(92) + '|')}{space}{fence}"


def percent(value: float, digits: int = 1) -> str:
    """A success in [0, 1] in percent, without the sign of percent."""
    return decimal(100 * value, digits)


def points(difference: float) -> str:
    """A difference of two successes in signed percent points."""
    text = decimal(100 * difference, 1)
    return text if text.startswith(MINUS) or text in (UNKNOWN, "0.0") else f"+{text}"


def decimal(value: float, digits: int = 2) -> str:
    """With a real minus, and no sign before zero."""
    if not math.isfinite(value):
        return UNKNOWN
    text = f"{value:,.{digits}f}"
    return text.replace("-", "" if float(text.replace(",", "")) == 0 else MINUS)


def whole(value: float) -> str:
    """A count, thousands apart."""
    return decimal(value, 0)


def rate(value: float) -> str:
    """A learning rate: 0.0003 as 3e-4."""
    mantissa, exponent = f"{value:e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def p_value(p: float) -> str:
    """With three decimals."""
    if math.isnan(p):
        return UNKNOWN
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def mean(values: Sequence[float], shown: Callable[[float], str]) -> str:
    """The mean of the finite values, UNKNOWN where there is none."""
    known = [value for value in values if math.isfinite(value)]
    return shown(statistics.fmean(known)) if known else UNKNOWN


def arrow(
    starts: Sequence[float], ends: Sequence[float], shown: Callable[[float], str] = percent
) -> str:
    """start → end, each the mean of its finite values."""
    return f"{mean(starts, shown)} → {mean(ends, shown)}"
