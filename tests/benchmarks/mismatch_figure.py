"""The picture of the mismatch study: held-out success over rounds, a panel for each sampler."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swarmnode.drawing import GRID, INK, SERIES, as_png
from tests.benchmarks.mismatch_protocol import CORRECTIONS, KINDS, SIZES, Correction
from tests.benchmarks.mismatch_rows import Row
from tests.benchmarks.mismatch_tables import Rows, grouped

COLOURS: Mapping[Correction, str] = dict(zip(CORRECTIONS, SERIES, strict=False))
DASHES: Mapping[Correction, str] = {"none": ":", "ppo-is": "--", "truncated": "-"}


def draw(rows: Iterable[Row]) -> bytes:
    """As a PNG; bands reach from the lowest to the highest seed."""
    by_arm = grouped(rows)
    return as_png(lambda: _drawn(by_arm))


def _drawn(rows: Rows) -> Figure:
    figure = Figure(figsize=(16.0, 7.0), layout="constrained")
    panels = figure.subplots(len(KINDS), len(SIZES), sharex=True, sharey=True, squeeze=False)
    for kind, line in zip(KINDS, panels, strict=True):
        for size, axes in zip(SIZES, line, strict=True):
            axes.set_title(f"{kind}, {size:g} nats a token", color=INK, fontsize=12)
            axes.grid(color=GRID)
            for correction in CORRECTIONS:
                _curve(axes, correction, rows.get((kind, size, correction), {}))
        line[0].set_ylabel("held-out success")
    for axes in panels[-1]:
        axes.set_xlabel("rounds")
    panels[0][0].legend(frameon=False)
    return figure


def _curve(axes: Axes, correction: Correction, runs: Mapping[int, Row]) -> None:
    if not runs:
        return
    rounds = min((row["rounds"] for row in runs.values()), key=len)
    values = list(zip(*(row["held_out"] for row in runs.values()), strict=False))
    means = [statistics.fmean(each) for each in values]
    colour = COLOURS[correction]
    axes.fill_between(
        rounds, list(map(min, values)), list(map(max, values)), color=colour, alpha=0.12, lw=0
    )
    axes.plot(rounds, means, DASHES[correction], color=colour, label=correction)
