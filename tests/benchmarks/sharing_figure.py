"""The picture of the study "Does sharing help?": curves of every arm, and paired differences.

Upper row: held-out success and local reward over rounds, mean over seeds; the band of the reference
and of the sharing arm reaches from the lowest to the highest seed. Lower row: by arm, the
difference to the reference of every seed, with mean and 95 % interval. Only runs of stage main are
shown. Drawn with matplotlib's objects, without pyplot's global state; equal rows give equal bytes.
"""

from __future__ import annotations

import io
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from swarmnode.drawing import DOTS_PER_INCH, GRID, GROUND, INK, MUTED, STYLE
from tests.benchmarks.sharing_runs import Runs, StudyProtocol, counted
from tests.benchmarks.sharing_statistics import Row, estimate, held_out_end, paired_differences

WIDTH, LEFT, RIGHT, GAP = 16.0, 0.95, 0.45, 0.9
"""Inches: the width, its margins, the gap between the curves' panels."""
CURVES_TOP, CURVES_HEIGHT = 2.55, 4.2
DOTS_TOP, DOTS_LEFT, DOTS_ROW, BOTTOM = 8.55, 2.1, 0.42, 0.95
"""Inches: down to the differences, in to their axis, for each arm, and below the last."""
LEGEND_COLUMNS = 4
Dashes = tuple[float, tuple[float, ...]]
LINES: Sequence[tuple[str, Dashes]] = (
    ("#1c1b19", (0, ())),
    ("#2a6fd6", (0, (5, 1.5))),
    ("#118a68", (0, (1, 1))),
    ("#a37f00", (0, (7, 1.5, 1, 1.5))),
    ("#c2347e", (0, (3, 1, 1, 1, 1, 1))),
    ("#e0631f", (0, ())),
    ("#7d4fc4", (0, (10, 2.5))),
    ("#37a9bd", (0, (1, 2.5))),
)
"""Colour and dashes, so that arms are told apart by either."""
Reward = Literal["held_out", "local"]


def draw(rows: Sequence[Row], protocol: StudyProtocol) -> bytes:
    """The picture as a PNG, 1600 pixels wide; without a main run it says that there is none."""
    data = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        # Neither date nor the program's version is written.
        _drawn(rows, protocol).savefig(
            data,
            format="png",
            dpi=DOTS_PER_INCH,
            facecolor=GROUND,
            metadata=dict.fromkeys(["Software"]),
        )
    return data.getvalue()


def _drawn(rows: Sequence[Row], protocol: StudyProtocol) -> Figure:
    present = Runs(rows, protocol).present("main")
    others = [name for name in present if name != protocol.reference]
    figure = Figure(figsize=(WIDTH, DOTS_TOP + DOTS_ROW * max(1, len(others)) + BOTTOM))
    seeds = {row["seed"] for runs in present.values() for row in runs}
    _text(figure, 0.3, "Does sharing help?", size=21)
    if not present:
        _text(figure, 0.85, "No main run has ended yet.", size=13)
        return figure
    explained = f"Means over {counted(len(seeds), 'fresh seed')}"
    _text(figure, 0.8, explained, size=13, colour=MUTED)
    _draw_legend(figure, list(present), protocol)
    held_out = _curves_axes(figure, 0, "Unseen questions", "held-out success, %")
    local = _curves_axes(figure, 1, "Own fresh answers", "local reward, %")
    for name, runs in present.items():
        _draw_curve(held_out, name, runs, "held_out", protocol)
        _draw_curve(local, name, runs, "local", protocol)
    top = max(axes.get_ylim()[1] for axes in (held_out, local))
    for axes in (held_out, local):
        # One scale, so that heights may be compared.
        axes.set_ylim(0, top)
        axes.set_xlim(0, max(row["rounds"] for runs in present.values() for row in runs))
    _draw_differences(figure, {name: present[name] for name in others}, present, protocol)
    return figure


def _draw_legend(figure: Figure, names: Sequence[str], protocol: StudyProtocol) -> None:
    handles: list[Line2D | Patch] = []
    for name in names:
        colour, dashes = _line(name, protocol)
        width = _width(name, protocol)
        handles.append(Line2D([], [], color=colour, linestyle=dashes, linewidth=width, label=name))
    if any(_emphasized(name, protocol) for name in names):
        handles.append(Patch(color=MUTED, alpha=0.2, label="lowest to highest seed"))
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(LEFT / WIDTH, _up(figure, 1.2)),
        borderaxespad=0,
        borderpad=0,
        ncols=LEGEND_COLUMNS,
        frameon=False,
        handlelength=4,
        columnspacing=2.5,
        fontsize=13,
    )


def _curves_axes(figure: Figure, column: int, title: str, label: str) -> Axes:
    width = (WIDTH - LEFT - RIGHT - GAP) / 2
    left = LEFT + column * (width + GAP)
    bottom = _up(figure, CURVES_TOP + CURVES_HEIGHT)
    height = CURVES_HEIGHT / figure.get_figheight()
    axes = figure.add_axes((left / WIDTH, bottom, width / WIDTH, height))
    axes.set_title(title, loc="left", fontsize=15, fontweight="bold", pad=14)
    axes.set_ylabel(label)
    axes.set_xlabel("round")
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    _frame(axes, "y")
    return axes


def _draw_curve(
    axes: Axes, name: str, runs: Sequence[Row], reward: Reward, protocol: StudyProtocol
) -> None:
    """The rounds that every seed has; in percent."""
    by_round = _by_round(runs, reward)
    rounds = list(by_round)
    colour, dashes = _line(name, protocol)
    emphasized = _emphasized(name, protocol)
    if emphasized and reward == "held_out":
        lows, highs = map(min, by_round.values()), map(max, by_round.values())
        axes.fill_between(
            rounds, list(lows), list(highs), color=colour, alpha=0.13, linewidth=0, zorder=1
        )
    axes.plot(
        rounds,
        [statistics.fmean(values) for values in by_round.values()],
        color=colour,
        linestyle=dashes,
        linewidth=_width(name, protocol),
        zorder=3 if emphasized else 2,
        clip_on=False,
    )


def _by_round(runs: Sequence[Row], reward: Reward) -> Mapping[int, Sequence[float]]:
    found: defaultdict[int, list[float]] = defaultdict(list)
    for row in runs:
        curve = row["curve"]
        for number, value in zip(curve["rounds"], curve[reward], strict=True):
            if value is not None and math.isfinite(value):
                found[number].append(100 * value)
    return {number: found[number] for number in sorted(found) if len(found[number]) == len(runs)}


def _draw_differences(
    figure: Figure,
    others: Mapping[str, Sequence[Row]],
    present: Mapping[str, Sequence[Row]],
    protocol: StudyProtocol,
) -> None:
    rows = max(1, len(others))
    left, bottom = DOTS_LEFT / WIDTH, BOTTOM / figure.get_figheight()
    width, height = 1 - left - RIGHT / WIDTH, DOTS_ROW * rows / figure.get_figheight()
    title = f"At the end, each arm less {protocol.reference} of the same seed"
    _text(figure, DOTS_TOP - 0.95, title, size=15)
    explained = "a small dot a seed; the large dot is their mean, the bar its 95 % interval"
    _text(figure, DOTS_TOP - 0.6, explained, size=12, colour=MUTED)
    axes = figure.add_axes((left, bottom, width, height))
    _frame(axes, "x")
    axes.axvline(0, color=INK, linewidth=1.2, zorder=1)
    axes.set_xlabel(f"points of held-out success above {protocol.reference}")
    axes.set_yticks(range(len(others)), list(others), color=INK)
    axes.set_ylim(rows - 0.5, -0.5)
    for place, (name, runs) in enumerate(others.items()):
        differences = _differences(runs, present.get(protocol.reference, []))
        if differences:
            _draw_dots(axes, place, differences, _line(name, protocol)[0])


def _draw_dots(axes: Axes, place: int, differences: Sequence[float], colour: str) -> None:
    result = estimate(differences)
    below = [place + 0.16] * len(differences)
    axes.plot(differences, below, "o", color=colour, alpha=0.55, markersize=5, markeredgewidth=0)
    axes.plot([result.low, result.high], [place - 0.12] * 2, color=colour, linewidth=2.4)
    axes.plot([result.mean], [place - 0.12], "o", color=colour, markersize=9)


def _differences(runs: Sequence[Row], reference: Sequence[Row]) -> Sequence[float]:
    """In points, over the seeds that both have measured."""
    seeds = _measured(runs) & _measured(reference)
    both = [[row for row in each if row["seed"] in seeds] for each in (runs, reference)]
    return [100 * value for value in paired_differences(both[0], both[1]).values()]


def _measured(runs: Iterable[Row]) -> set[int]:
    return {row["seed"] for row in runs if math.isfinite(held_out_end(row))}


def _frame(axes: Axes, grid: Literal["x", "y"]) -> None:
    axes.set_facecolor("none")
    axes.grid(axis=grid, color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)


def _line(name: str, protocol: StudyProtocol) -> tuple[str, Dashes]:
    return LINES[list(protocol.arms).index(name) % len(LINES)]


def _width(name: str, protocol: StudyProtocol) -> float:
    return 3.2 if _emphasized(name, protocol) else 2.2


def _emphasized(name: str, protocol: StudyProtocol) -> bool:
    return name in (protocol.reference, protocol.sharing)


def _text(figure: Figure, top: float, text: str, *, size: float, colour: str = INK) -> None:
    weight = "normal" if colour == MUTED else "bold"
    place = _up(figure, top)
    figure.text(LEFT / WIDTH, place, text, size=size, weight=weight, color=colour, va="top")


def _up(figure: Figure, inches: float) -> float:
    """A place below the upper edge, as matplotlib counts it from below."""
    return 1 - inches / figure.get_figheight()
