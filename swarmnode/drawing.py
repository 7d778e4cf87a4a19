"""How every picture and page of ours looks: colours, type, and a figure as PNG or inline SVG.

Drawn with matplotlib's objects, without pyplot's global state; import this module only when a
picture is made. The colours of neighbouring series differ for colour-blind eyes too. An SVG has the
CSS variables of page.css for its colours. Equal figures give equal bytes.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any, Literal

import matplotlib
from matplotlib.figure import Figure
from matplotlib.typing import RcKeyType

SERIES = ("#2a6fd6", "#e0631f", "#118a68", "#7d4fc4", "#c2347e", "#8a6d00")
INK, MUTED, GRID, GROUND = "#1c1b19", "#6b6a64", "#e4e3de", "#fdfdfb"
CSS_VARIABLES = {
    **{colour: f"var(--series-{number})" for number, colour in enumerate(SERIES, 1)},
    **{INK: "var(--ink)", MUTED: "var(--muted)", GRID: "var(--grid)", GROUND: "var(--ground)"},
}
"""What the page must define for the SVG, as page.css does."""

DOTS_PER_INCH = 100
STYLE: dict[RcKeyType, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 12,
    "text.color": INK,
    "text.parse_math": False,
    "axes.labelcolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "svg.hashsalt": "swarmnode",
}


def page_style() -> str:
    """The style sheet of a page, for a `<style>` element."""
    return (files("swarmnode") / "page.css").read_text(encoding="utf-8").rstrip("\n")


def as_png(draw: Callable[[], Figure]) -> bytes:
    """The figure as a PNG with a light ground."""
    return _saved(draw, "png")


def as_svg(draw: Callable[[], Figure]) -> str:
    """The figure as an `<svg>` element for an HTML page that defines CSS_VARIABLES."""
    text = _saved(draw, "svg").decode("utf-8")
    text = text[text.index("<svg") :]
    # An HTML parser knows the name spaces; without them the page holds no address at all.
    text = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", text)
    text = re.sub(r'<svg height="[^"]*"(.*?) width="[^"]*"', r"<svg\1", text, count=1)
    for colour, variable in CSS_VARIABLES.items():
        text = text.replace(colour, variable)
    return text


def _saved(draw: Callable[[], Figure], kind: Literal["png", "svg"]) -> bytes:
    data = io.BytesIO()
    # Neither date nor the program's version is written.
    names = ("Software",) if kind == "png" else ("Creator", "Date", "Format", "Type")
    with matplotlib.rc_context(STYLE):
        draw().savefig(
            data, format=kind, dpi=DOTS_PER_INCH, facecolor=GROUND, metadata=dict.fromkeys(names)
        )
    return data.getvalue()
