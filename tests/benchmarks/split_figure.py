"""docs/results/split.png: throughput and held-out success by the largest lag, idle time beside."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from swarmnode.drawing import GRID, SERIES, as_png
from tests.benchmarks.split_protocol import GENERATORS, LAGS, QUESTIONS, Part
from tests.benchmarks.split_rows import Row

Value = Callable[[Row], float]


def draw(rows: Sequence[Row]) -> bytes:
    """A PNG; parts that were not run are empty."""
    return as_png(lambda: _drawn(rows))


def _drawn(rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(15.0, 4.5), layout="constrained")
    pace, success, idle = figure.subplots(1, 3)
    for axes in (pace, success, idle):
        axes.grid(color=GRID)
    blue, orange, green = SERIES[:3]
    _line(pace, rows, "lag", LAGS, _groups_a_second, "groups a second", blue)
    pace.set(xlabel="largest lag, versions", ylabel="groups a second", ylim=(0, None))
    _line(success, rows, "learning", LAGS, _named("held_out"), "held-out success", blue)
    success.set(xlabel="largest lag, versions", ylabel="held-out success at the end")
    _line(idle, rows, "generators", GENERATORS, _named("trainer_idle"), "trainer idle", orange)
    _line(idle, rows, "generators", GENERATORS, _named("generators_idle"), "generators idle", green)
    idle.set(xlabel="generators", ylabel="share of the time", ylim=(0, 1))
    lag = idle.twinx()
    _line(lag, rows, "generators", GENERATORS, _named("lag_mean"), "mean lag", blue)
    lag.set(ylabel="mean lag, versions (blue)", ylim=(0, None))
    idle.legend(loc="upper left", frameon=False)
    return figure


def _line(
    axes: Axes,
    rows: Sequence[Row],
    part: Part,
    places: Sequence[int],
    value: Value,
    label: str,
    colour: str,
) -> None:
    """The mean over seeds, and every seed as a point."""
    found = {
        place: [value(row) for row in rows if row["part"] == part and row["arm"] == str(place)]
        for place in places
    }
    run = [place for place in places if found[place]]
    means = [statistics.fmean(found[place]) for place in run]
    axes.plot(run, means, "o-", label=label, color=colour)
    for place in run:
        axes.plot([place] * len(found[place]), found[place], ".", color=colour, alpha=0.4)


def _groups_a_second(row: Row) -> float:
    return QUESTIONS / row["seconds"]


def _named(name: str) -> Value:
    def value(row: Row) -> float:
        found = dict(row)[name]
        return float(found) if isinstance(found, float | int) else 0.0

    return value
