"""The picture of a pre-training run: validation losses and shares over steps.

Import this module only when a picture is made; how it looks is drawing.py's.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swarmnode.drawing import GRID, INK, MUTED, SERIES
from swarmnode.pretraining.summary import Summary

WIDTH, HEIGHT = 16.0, 5.6
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)))
"""A domain beyond the colours has one of them again with other dashes."""


def draw(summary: Summary, names: Sequence[str]) -> Figure:
    """Three panels: all domains together, each domain, and what the scheduler said."""
    figure = Figure(figsize=(WIDTH, HEIGHT))
    titles = (
        ("All domains", "validation loss, nats a byte"),
        ("Domain by domain", "validation loss, nats a byte"),
        ("Shares", "what the scheduler drew by"),
    )
    panels = [
        _panel(figure, place, title, about, len(summary.shares))
        for place, (title, about) in enumerate(titles)
    ]
    curves = summary.curves
    panels[0].plot(curves.steps, curves.macro, color=INK, linewidth=2.4, label="every domain alike")
    panels[0].plot(
        curves.steps, curves.mixture, color=MUTED, linewidth=2.0, label="by static shares"
    )
    panels[0].legend(frameon=False, loc="upper right")
    smooth = _smoothed(summary.shares)
    for number, name in enumerate(names):
        colour = SERIES[number % len(SERIES)]
        dashes = DASHES[number // len(SERIES) % len(DASHES)]
        losses = [each[number] for each in curves.by_domain]
        panels[1].plot(
            curves.steps, losses, color=colour, linestyle=dashes, linewidth=2.0, label=name
        )
        shares = [each[number] for each in smooth]
        steps = range(1, len(shares) + 1)
        panels[2].plot(steps, shares, color=colour, linestyle=dashes, linewidth=2.0)
    panels[2].set_ylim(bottom=0.0)
    figure.legend(
        *panels[1].get_legend_handles_labels(),
        loc="lower center",
        ncols=min(8, max(1, len(names))),
        frameon=False,
    )
    return figure


def _panel(figure: Figure, place: int, title: str, about: str, steps: int) -> Axes:
    width = 0.27
    axes = figure.add_axes((0.06 + place * 0.325, 0.24, width, 0.58))
    axes.set_title(f"{title}\n", loc="left", fontsize=15, fontweight="bold")
    axes.annotate(about, (0, 1), (0, 8), "axes fraction", "offset points", color=MUTED)
    axes.set_facecolor("none")
    axes.set_xlim(0, max(1, steps))
    axes.set_xlabel("step")
    axes.grid(axis="y", color=GRID, linewidth=1)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, pad=6)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)
    return axes


def _smoothed(shares: Sequence[Sequence[float]]) -> list[list[float]]:
    """A mean of the steps up to each one, a fortieth of all."""
    width = max(1, len(shares) // 40)
    windows = [shares[max(0, at + 1 - width) : at + 1] for at in range(len(shares))]
    return [[sum(column) / len(each) for column in zip(*each, strict=True)] for each in windows]
