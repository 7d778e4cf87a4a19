"""The picture of a study: rewards over rounds by variant, and held-out success by task.

All panels of a row share the y axis, so that heights may be compared. Import this module only when
a picture is made; how it looks is drawing.py's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from swarmnode.drawing import GRID, INK, MUTED, SERIES, as_png, as_svg
from swarmnode.sim.smoothing import moving_average, smoothing_width
from swarmnode.sim.summary import Curve, RewardName, Variant

Baselines = Mapping[str, float | None]
"""Success of the best constant or heuristic answer by task; None where nobody measured it."""

WIDTH, LEFT, RIGHT, HEADER, TASK_ROW = 16.0, 0.95, 0.45, 6.35, 2.7
"""Inches: the width, its margins, the height down to the tasks, the height of a row of tasks."""
TASK_COLUMNS = 6
PANELS: tuple[tuple[RewardName, str, str], ...] = (
    ("held_out", "Unseen questions", "held-out success: what has been learned"),
    ("local", "Own fresh answers", "local reward: every answer counts"),
    ("training_set", "What was trained on", "training-set reward: lifted by choosing groups"),
)


def curves_png(variants: Sequence[Variant], baselines: Baselines) -> bytes:
    """The picture as a PNG, 1600 pixels wide."""
    return as_png(partial(draw, variants, baselines))


def curves_svg(variants: Sequence[Variant], baselines: Baselines) -> str:
    """The picture as an `<svg>` element for a page with the style of page.css."""
    return as_svg(partial(draw, variants, baselines))


def draw(variants: Sequence[Variant], baselines: Baselines) -> Figure:
    """The three rewards in the upper row; below it a small panel a task, if there are several."""
    tasks = sorted({task for variant in variants for task in variant.held_out_curves})
    rows = math.ceil(len(tasks) / TASK_COLUMNS) if len(tasks) > 1 else 0
    figure = Figure(figsize=(WIDTH, HEADER + (0.45 + TASK_ROW * rows if rows else 0.0)))
    rounds = max((variant.rounds for variant in variants), default=0)
    _draw_header(figure, variants, baselines, rounds)
    top = _top(
        [height for variant in variants for height in _heights(variant)],
        _mean_baseline(baselines),
    )
    for place, (reward, title, subtitle) in enumerate(PANELS):
        axes = _add_axes(figure, place, len(PANELS), HEADER - 4.15, 3.3)
        axes.set_title(f"{title}\n", loc="left", fontsize=15, fontweight="bold")
        axes.annotate(
            subtitle, (0, 1), (0, 8), "axes fraction", "offset points", color=MUTED, fontsize=12
        )
        _frame(axes, rounds, top, labelled=place == 0)
        axes.set_xlabel("round")
        for number, variant in enumerate(variants):
            _draw_curve(axes, variant.curves[reward], reward, _colour(number), band=True)
        if reward == "held_out":
            _draw_baseline(axes, _mean_baseline(baselines))
            _label_ends(axes, variants, top)
    if rows:
        _draw_tasks(figure, variants, tasks, baselines, rounds)
    return figure


def _draw_tasks(
    figure: Figure,
    variants: Sequence[Variant],
    tasks: Sequence[str],
    baselines: Baselines,
    rounds: int,
) -> None:
    _text(figure, HEADER + 0.2, "Unseen questions, task by task", size=15, weight="bold")
    columns = math.ceil(len(tasks) / math.ceil(len(tasks) / TASK_COLUMNS))
    curves = [variant.held_out_curves for variant in variants]
    top = _top(
        [height for by_task in curves for curve in by_task.values() for height in curve.mean],
        *map(baselines.get, tasks),
    )
    for place, task in enumerate(tasks):
        row, column = divmod(place, columns)
        axes = _add_axes(figure, column, columns, HEADER + 0.85 + TASK_ROW * row, 1.75)
        axes.set_title(_shortened(task), loc="left", fontsize=12)
        _frame(axes, rounds, top, labelled=column == 0)
        for number, by_task in enumerate(curves):
            if task in by_task:
                _draw_curve(axes, by_task[task], "held_out", _colour(number), band=False)
        _draw_baseline(axes, baselines.get(task))


def _draw_header(
    figure: Figure, variants: Sequence[Variant], baselines: Baselines, rounds: int
) -> None:
    plural = "" if rounds == 1 else "s"
    _text(figure, 0.3, f"Success over {rounds} round{plural}", size=21, weight="bold")
    explained = "I/J: each node trains on I groups of its own and J groups of other nodes a round"
    _text(figure, 0.72, explained, size=13, colour=MUTED)
    handles = _legend(variants, baselines, rounds)
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(LEFT / WIDTH, 1 - 1.12 / figure.get_figheight()),
        borderaxespad=0,
        borderpad=0,
        ncols=len(handles) if len(handles) <= 8 else math.ceil(len(handles) / 2),
        frameon=False,
        handlelength=1.6,
        columnspacing=1.8,
        fontsize=13,
    )


def _legend(
    variants: Sequence[Variant], baselines: Baselines, rounds: int
) -> Sequence[Line2D | Patch]:
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=_colour(number), linewidth=3, label=variant.name)
        for number, variant in enumerate(variants)
    ]
    if any(
        variant.curves["held_out"].low != variant.curves["held_out"].high for variant in variants
    ):
        members = "seed" if any(len(variant.seeds) > 1 for variant in variants) else "node"
        handles.append(Patch(color=MUTED, alpha=0.2, label=f"lowest to highest {members}"))
    width = smoothing_width(rounds)
    if width > 1:
        handles.append(Line2D([], [], color=MUTED, linewidth=0.8, label="single rounds"))
        label = f"mean of {width} rounds"
        handles.append(Line2D([], [], color=MUTED, linewidth=2.4, label=label))
    if any(value is not None for value in baselines.values()):
        label = "best fixed answer or shallow rule"
        handles.append(Line2D([], [], color=INK, linewidth=1.6, linestyle=":", label=label))
    return handles


def _text(
    figure: Figure, top: float, text: str, *, size: float, weight: str = "normal", colour: str = INK
) -> None:
    place = 1 - top / figure.get_figheight()
    figure.text(LEFT / WIDTH, place, text, size=size, weight=weight, color=colour, va="top")


def _add_axes(figure: Figure, column: int, columns: int, top: float, height: float) -> Axes:
    """A panel `top` inches below the figure's upper edge."""
    gap = 0.5 if columns > 3 else 0.8
    width = (WIDTH - LEFT - RIGHT - gap * (columns - 1)) / columns
    whole = figure.get_figheight()
    left = LEFT + column * (width + gap)
    return figure.add_axes(
        (left / WIDTH, 1 - (top + height) / whole, width / WIDTH, height / whole)
    )


def _frame(axes: Axes, rounds: int, top: float, *, labelled: bool) -> None:
    axes.set_facecolor("none")
    axes.set_xlim(0, max(1, rounds))
    axes.set_ylim(0, top)
    axes.set_xticks(_round_ticks(max(1, rounds)))
    axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6, labelleft=labelled)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    if labelled:
        axes.set_ylabel("share of answers right")


def _round_ticks(last: int) -> Sequence[float]:
    """Round numbers of rounds, the last round, and none so near to it that labels would touch."""
    ticks = MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]).tick_values(0, last)
    return [*(tick for tick in ticks if tick <= 0.8 * last), last]


def _draw_curve(axes: Axes, curve: Curve, reward: RewardName, colour: str, *, band: bool) -> None:
    if not curve.rounds:
        return
    if reward == "held_out":
        mean: Sequence[float] = curve.mean
        if band:
            axes.fill_between(
                curve.rounds, curve.low, curve.high, color=colour, alpha=0.14, linewidth=0
            )
    else:
        mean = moving_average(curve.mean, smoothing_width(curve.rounds[-1]))
        axes.plot(curve.rounds, curve.mean, color=colour, linewidth=0.8, alpha=0.4)
    marker = "o" if len(curve.rounds) <= 15 else ""
    axes.plot(
        curve.rounds,
        mean,
        color=colour,
        linewidth=2.4,
        marker=marker,
        markersize=5 if band else 4,
        solid_capstyle="round",
        clip_on=False,
    )


def _draw_baseline(axes: Axes, value: float | None) -> None:
    if value is not None:
        axes.axhline(value, color=INK, linewidth=1.6, linestyle=":", zorder=1.5)


def _label_ends(axes: Axes, variants: Sequence[Variant], top: float) -> None:
    """The last value beside each curve, pushed apart where they would overlap."""
    ends = [(v.curves["held_out"].mean[-1], v) for v in variants if v.curves["held_out"].rounds]
    digits = 2 if top > 0.25 else 3
    place = -top
    for value, variant in sorted(ends, key=lambda end: end[0]):
        place = max(value, place + 0.06 * top)
        axes.annotate(
            f"{value:.{digits}f}",
            (variant.curves["held_out"].rounds[-1], place),
            (9, 0),
            textcoords="offset points",
            va="center",
            fontsize=12,
            fontweight="bold",
            annotation_clip=False,
        )


def _mean_baseline(baselines: Baselines) -> float | None:
    """Over tasks with equal weights, as held-out success; None unless all are known."""
    known = [value for value in baselines.values() if value is not None]
    return sum(known) / len(known) if known and len(known) == len(baselines) else None


def _heights(variant: Variant) -> Iterable[float]:
    """What the upper panels must have room for: only held-out success is drawn with its band."""
    for reward, _, _ in PANELS:
        curve = variant.curves[reward]
        yield from curve.high if reward == "held_out" else curve.mean


def _top(heights: Iterable[float], *lines: float | None) -> float:
    """The end of a y axis."""
    highest = max([0.1, *heights, *(line for line in lines if line is not None)])
    return min(1.02, 1.08 * highest)


def _colour(number: int) -> str:
    return SERIES[number % len(SERIES)]


def _shortened(task: str) -> str:
    return task if len(task) <= 26 else f"{task[:25]}…"
