"""The moving average that the picture of a study draws through single rounds."""

from __future__ import annotations

from collections.abc import Sequence


def smoothing_width(rounds: int) -> int:
    """Rounds that the average spans: odd, about a twentieth of all, 1 below 40."""
    return 2 * (rounds // 40) + 1


def moving_average(values: Sequence[float], width: int) -> list[float]:
    """A centred mean of `width` values, of fewer at both ends."""
    half = width // 2
    windows = [values[max(0, at - half) : at + half + 1] for at in range(len(values))]
    return [sum(window) / len(window) for window in windows]
