"""The picture of the hacking study: dropped spaces by sampler and ratio, lengths by arm."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swarmnode.drawing import GRID, INK, SERIES, as_png
from tests.benchmarks.hacking_protocol import ARMS, INNER_STEPS, LEVELS, SAMPLINGS
from tests.benchmarks.hacking_rows import Row
from tests.benchmarks.hacking_tables import Rows, grouped, spaces_arm

DASHES = ("-", "--")


def draw(rows: Iterable[Row]) -> bytes:
    """As a PNG; bands reach from the lowest to the highest seed."""
    known = list(rows)
    of_spaces, of_length = grouped(known, "spaces"), grouped(known, "length")
    return as_png(lambda: _drawn(of_spaces, of_length))


def _drawn(of_spaces: Rows, of_length: Rows) -> Figure:
    figure = Figure(figsize=(16.0, 8.0), layout="constrained")
    panels = figure.subplots(2, len(SAMPLINGS))
    for axes, sampling in zip(panels[0], SAMPLINGS, strict=True):
        _prepared(axes, sampling, "spaces dropped")
        axes.set_ylim(0.0, 1.0)
        for level, colour in zip(LEVELS, SERIES, strict=False):
            for steps, dashes in zip(INNER_STEPS, DASHES, strict=True):
                runs = of_spaces.get(spaces_arm(level, steps, sampling), {})
                _curve(axes, runs, "dropped", colour, dashes, f"{level}, {steps} inner")
    panels[0][0].legend(frameon=False)
    figures = {"tokens": "tokens", "liked": "reward model's score", "worth": "worth"}
    for axes, (name, title) in zip(panels[1], figures.items(), strict=False):
        _prepared(axes, title, title)
        for arm, colour in zip(ARMS, SERIES, strict=False):
            _curve(axes, of_length.get(arm, {}), name, colour, "-", arm)
    panels[1][0].legend(frameon=False)
    for axes in panels[1][len(figures) :]:
        axes.set_axis_off()
    return figure


def _prepared(axes: Axes, title: str, label: str) -> None:
    axes.set_title(title, color=INK, fontsize=12)
    axes.set_xlabel("rounds")
    axes.set_ylabel(label)
    axes.grid(color=GRID)


def _curve(
    axes: Axes, runs: Mapping[int, Row], name: str, colour: str, dashes: str, label: str
) -> None:
    if not runs:
        return
    rounds = min((row["rounds"] for row in runs.values()), key=len)
    values = list(zip(*(row["exams"][name] for row in runs.values()), strict=False))
    means = [statistics.fmean(each) for each in values]
    low, high = list(map(min, values)), list(map(max, values))
    axes.fill_between(rounds, low, high, color=colour, alpha=0.12, lw=0)
    axes.plot(rounds, means, dashes, color=colour, label=label)
