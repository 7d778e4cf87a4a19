"""The picture of the mixing study: losses less those of equal shares, on the way and at the end."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swarmnode.drawing import GRID, INK, MUTED, SERIES, as_png
from tests.benchmarks.mixing_page import Runs, compared, final_macro, runs_by_arm
from tests.benchmarks.mixing_protocol import ARMS, BY_STAGE, REFERENCES
from tests.benchmarks.mixing_rows import Row

EQUAL = REFERENCES[0]
COLOURS = dict(
    zip((arm.name for arm in reversed(ARMS) if arm.name != EQUAL), (*SERIES, INK), strict=True)
)


def draw(rows: Sequence[Row]) -> bytes:
    """As a PNG, of the main part and the controls."""
    runs = runs_by_arm(rows, "main", "controls")
    return as_png(lambda: _drawn(runs))


def _drawn(runs: Runs) -> Figure:
    figure = Figure(figsize=(13.0, 5.5), layout="constrained")
    way, end = figure.subplots(1, 2, width_ratios=(3, 2))
    for axes in (way, end):
        axes.grid(color=GRID)
    _on_the_way(way, runs)
    _at_the_end(end, runs)
    return figure


def _on_the_way(axes: Axes, runs: Runs) -> None:
    """Means over the seeds that an arm has with equal shares."""
    axes.set_title("on the way, means over seeds", color=INK)
    axes.set_xlabel("steps")
    axes.set_ylabel(f"macro loss less that of {EQUAL}, nats a byte")
    axes.axhline(0.0, color=MUTED, linewidth=1)
    equal = runs.get(EQUAL, {})
    for arm, colour in COLOURS.items():
        of_arm = runs.get(arm, {})
        seeds = sorted({*of_arm} & {*equal})
        if not seeds:
            continue
        steps = equal[seeds[0]]["steps"]
        means = [
            statistics.fmean(
                runs[arm][seed]["macro"][at] - equal[seed]["macro"][at] for seed in seeds
            )
            for at in range(len(steps))
        ]
        axes.plot(steps, means, color=colour, label=arm)
    if axes.lines[1:]:
        axes.legend(frameon=False, fontsize=10)


def _at_the_end(axes: Axes, runs: Runs) -> None:
    """Every seed's difference, and the 95 % interval of the mean."""
    axes.set_title("at the end, by seed, with the 95 % interval", color=INK)
    axes.axvline(0.0, color=MUTED, linewidth=1)
    names = [name for stage in ("main", "controls") for name in BY_STAGE[stage] if name != EQUAL]
    equal = runs.get(EQUAL, {})
    for place, arm in enumerate(names):
        of_arm = runs.get(arm, {})
        seeds = sorted({*of_arm} & {*equal})
        if not seeds:
            continue
        colour = COLOURS.get(arm, MUTED)
        found = compared(runs, arm, EQUAL, final_macro)
        differences = [final_macro(of_arm[seed]) - final_macro(equal[seed]) for seed in seeds]
        axes.plot(differences, [place] * len(seeds), "o", color=colour, alpha=0.5, markersize=5)
        axes.plot([found.low, found.high], [place, place], color=colour, linewidth=2)
        axes.plot([found.mean], [place], "D", color=colour, markersize=7)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
