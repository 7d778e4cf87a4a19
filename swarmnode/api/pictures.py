"""The small pictures of the page, as SVG trees: curves, sparklines, bars, the map of peers.

Pure. They say nothing that does not stand beside them as text: a screen reader is told their title
alone. Sizes and colours are the style sheet's, since no element may carry a style of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from swarmnode.api.tree import Element, element, elements
from swarmnode.observe.history import Point, Spread

CURVES = ("held_out", "local", "training_set")
WIDTH, HEIGHT = 720, 240
SPARK_WIDTH, SPARK_HEIGHT = 160, 32
SPARK_POINTS = 48
MAP_SIZE, MAP_RADIUS = 320, 118
MOST_ON_MAP = 24


def curves(points: Sequence[Point], title: str) -> Element:
    """The three rewards over the rounds, each a line within its band; for a page without script."""
    drawn: list[Element] = [
        element("line", x1=0, x2=WIDTH, y1=_y(level), y2=_y(level), class_="grid")
        for level in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    for name in CURVES:
        spreads = [
            (point.round, spread)
            for point in points
            if (spread := getattr(point, name)) is not None
        ]
        if spreads:
            drawn += _curve(name, spreads, points[0].round, points[-1].round)
    return elements(
        "svg", (element("title", title), *drawn),
        viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="curves", role="img", aria_label=title,
        preserveAspectRatio="none",
    )  # fmt: skip


def _curve(
    name: str, spreads: Sequence[tuple[int, Spread]], first: int, last: int
) -> Sequence[Element]:
    length = max(1, last - first)
    xs = [f"{(number - first) / length * WIDTH:.1f}" for number, _ in spreads]
    upper = [f"{x},{_y(spread.high)}" for x, (_, spread) in zip(xs, spreads, strict=True)]
    lower = [f"{x},{_y(spread.low)}" for x, (_, spread) in zip(xs, spreads, strict=True)]
    means = [f"{x},{_y(spread.mean)}" for x, (_, spread) in zip(xs, spreads, strict=True)]
    return (
        element("polygon", points=" ".join([*upper, *reversed(lower)]), class_=f"band {name}"),
        element("polyline", points=" ".join(means), class_=f"line {name}"),
    )


def _y(share: float) -> str:
    return f"{(1.0 - share) * HEIGHT:.1f}"


def sparkline(values: Sequence[float], top: float, kind: str) -> Element | None:
    """A line of values from 0 to `top`, the newest to the right; None of fewer than two."""
    if len(values) < 2:
        return None
    values = thinned(values)
    step = SPARK_WIDTH / (len(values) - 1)
    inner = SPARK_HEIGHT - 4
    points = " ".join(
        f"{at * step:.0f},{2 + inner * (1.0 - min(1.0, value / (top or 1.0))):.0f}"
        for at, value in enumerate(values)
    )
    return element(
        "svg", element("polyline", points=points, class_=f"line {kind}"),
        viewBox=f"0 0 {SPARK_WIDTH} {SPARK_HEIGHT}", class_="spark", aria_hidden="true",
        preserveAspectRatio="none",
    )  # fmt: skip


def thinned(values: Sequence[float]) -> Sequence[float]:
    """At most SPARK_POINTS means of equal stretches."""
    if len(values) <= SPARK_POINTS:
        return values
    edges = [round(at * len(values) / SPARK_POINTS) for at in range(SPARK_POINTS + 1)]
    return [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]


def bar(share: float, kind: str = "", mark: float | None = None) -> Element:
    """A bar that is full at 1, with a mark at another share of it."""
    width = f"{100 * min(1.0, max(0.0, share)):.1f}%"
    return element(
        "svg",
        element("rect", class_="track", width="100%", height="100%", rx=3),
        element("rect", class_=f"fill {kind}".strip(), width=width, height="100%", rx=3),
        None if mark is None
        else element("rect", class_="mark", x=f"{100 * min(0.99, mark):.1f}%", width=2,
                     height="100%"),
        class_="bar", aria_hidden="true",
    )  # fmt: skip


def stacked(shares: Sequence[tuple[float, str]]) -> Element:
    """One bar in parts, each with its class."""
    drawn, start = [], 0.0
    for share, kind in shares:
        drawn.append(
            element("rect", x=f"{100 * start:.2f}%", width=f"{100 * share:.2f}%", height="100%",
                    class_=f"part {kind}")
        )  # fmt: skip
        start += share
    return elements("svg", drawn, class_="stacked", aria_hidden="true")


def map_of(peers: Sequence[tuple[str, float, str]]) -> Element:
    """This node in the middle of its peers: name, share of what was trained on of peers, class.

    The share is how thick the line is; that a peer is cut off shows as a dashed one.
    """
    shown = peers[:MOST_ON_MAP]
    middle = MAP_SIZE // 2
    drawn: list[Element] = []
    for at, (name, share, kind) in enumerate(shown):
        angle = 2.0 * math.pi * at / max(1, len(shown)) - math.pi / 2.0
        x = round(middle + MAP_RADIUS * math.cos(angle))
        y = round(middle + MAP_RADIUS * math.sin(angle))
        width = f"{1.0 + 9.0 * math.sqrt(share):.1f}"
        drawn += [
            element("line", x1=middle, y1=middle, x2=x, y2=y, class_=f"link {kind}",
                    stroke_width=width),
            element("circle", cx=x, cy=y, r=9, class_=f"peer {kind}"),
            element("text", name, x=x, y=y + (24 if y >= middle else -15), class_="label"),
        ]  # fmt: skip
    drawn += [
        element("circle", cx=middle, cy=middle, r=15, class_="self"),
        element("text", "this node", x=middle, y=middle + 32, class_="label self"),
    ]
    title = f"This node and {len(peers)} peers"
    return elements(
        "svg", (element("title", title), *drawn), viewBox=f"0 0 {MAP_SIZE} {MAP_SIZE}",
        class_="map", role="img", aria_label=title,
    )  # fmt: skip
