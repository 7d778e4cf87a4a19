"""Sequences of shares that sum to 1. Pure; knows neither domains nor who chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence


def normalised(shares: Sequence[float]) -> tuple[float, ...]:
    """The shares divided by their sum. Raises ValueError unless all are finite and ≥ 0, one > 0."""
    total = math.fsum(shares)
    if not (math.isfinite(total) and total > 0.0 and all(share >= 0.0 for share in shares)):
        raise ValueError("shares must be finite and not negative, and one of them above 0")
    return tuple(share / total for share in shares)


def equal(count: int) -> tuple[float, ...]:
    """1 / count, that many times."""
    return (1.0 / count,) * count


def softmax(scores: Sequence[float], temperature: float = 1.0) -> tuple[float, ...]:
    """exp(score / temperature), normalised; the scores must be finite."""
    highest = max(scores)
    return normalised([math.exp((score - highest) / temperature) for score in scores])


def mixed_with_equal(shares: Sequence[float], least: float) -> tuple[float, ...]:
    """(1 - K·least)·share + least: every share is at least `least`, which is at most 1/K."""
    count = len(shares)
    least = min(least, 1.0 / count)
    return tuple((1.0 - count * least) * share + least for share in shares)


def is_simplex(shares: Sequence[float], count: int) -> bool:
    """Whether these are `count` finite shares of at least 0 that sum to 1 within 1e-6."""
    return (
        len(shares) == count
        and all(math.isfinite(share) and share >= 0.0 for share in shares)
        and abs(math.fsum(shares) - 1.0) <= 1e-6
    )
